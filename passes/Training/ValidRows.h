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
  /// Whether a result is the sum over samples times a constant; then divides() tells whether the constant makes it a mean.
  std::optional<int64_t> sumBehind(mlir::Operation &op) const;
  bool divides(mlir::Operation &op) const;

  StepFunction &step;
  mlir::OpBuilder &builder;
  mlir::IRMapping &mapping;
  SamplePlaces places;
  bool active;
  mlir::Value rowsArgument;
  std::optional<SamplePlaces::Combination> combination;         // of the operation that is cloned
  llvm::SmallVector<std::pair<mlir::Value, mlir::Value>> whole; // operands, and what they were mapped to
  llvm::DenseMap<mlir::Value, int64_t> sums;                    // over samples, and the number of terms for each sample
};

} // namespace divisi::training
