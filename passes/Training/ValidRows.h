#pragma once
#include "dialects/Graph/GraphBuilder.h"
#include "passes/Training/SamplePlaces.h"
#include "passes/Training/StepFunction.h"

#include "mlir/IR/IRMapping.h"

namespace divisi::training {

/// Makes the losses of files right for a last batch of an evaluation, which may lack rows: operations that combine samples
/// leave out the rows that are missing. Where the file divides a sum over samples by a multiple of the batch's size, as means
/// do, the quotient is scaled from `rows` to the whole batch. Other sums stay as they are, so that ratios of sums, norms and
/// numbers of samples are those of the rows. Losses that the compiler has added know the number of rows themselves.
class ValidRows {
public:
  ValidRows(StepFunction &step, mlir::OpBuilder &builder, mlir::func::FuncOp loss, mlir::IRMapping &mapping);

  /// To be called before and after an operation of @loss is cloned by the mapping.
  void before(mlir::Operation &op);
  void after(mlir::Operation &op);

private:
  mlir::Value rows();
  mlir::Value isValid(graph::GraphBuilder &b, mlir::Value x, SamplePlace place);
  void scale(graph::GraphBuilder &b, mlir::Value result);
  /// The number of terms for each sample, if the result is a sum over samples that is not yet divided; else none.
  std::optional<int64_t> termsOf(mlir::Operation &op) const;

  StepFunction &step;
  mlir::OpBuilder &builder;
  mlir::IRMapping &mapping;
  std::optional<SamplePlaces> places; // of a loss in the file
  mlir::Value rowsArgument;
  llvm::SmallVector<std::pair<mlir::Value, mlir::Value>> whole; // operands, and what they were mapped to
  llvm::DenseMap<mlir::Value, int64_t> sums;                    // over samples, and the number of terms for each sample
};

} // namespace divisi::training
