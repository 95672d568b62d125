#pragma once
#include "dialects/Graph/GraphBuilder.h"
#include "passes/Training/SampleSums.h"
#include "passes/Training/StepFunction.h"

#include "mlir/IR/IRMapping.h"

namespace divisi::training {

/// Makes the losses of files right for a last batch of an evaluation, which may lack rows. Operations that combine
/// samples leave out the rows that are missing. Where the file divides a sum over samples by their number in a whole
/// batch (SampleSums), the quotient is scaled to the rows that there are; other sums are those of the rows. Losses that
/// the compiler has added know the number of rows themselves.
class ValidRows {
public:
  ValidRows(StepFunction &step, mlir::OpBuilder &builder, mlir::func::FuncOp loss, mlir::IRMapping &mapping);

  ~ValidRows();

  /// Clones an operation of @loss by the mapping; `cloneOne` clones one as it is. What combines samples in one piece (a
  /// softmax over them) becomes simpler operations.
  void clone(mlir::Operation &op, llvm::function_ref<void(mlir::Operation &)> cloneOne);
  /// The classification in the evaluation that an operation of @loss is: its clone, or one in which missing samples are
  /// no classes and their labels do not count.
  graph::AccuracyInterface classification(graph::AccuracyInterface op);

private:
  bool clonePieces(mlir::Operation &op, llvm::function_ref<void(mlir::Operation &)> cloneOne);
  void before(mlir::Operation &op);
  void after(mlir::Operation &op);
  mlir::Value rows();
  mlir::Value isValid(graph::GraphBuilder &b, mlir::Value x, SamplePlace place);
  /// A value with the neutral element of a reduction in the rows that are missing.
  mlir::Value withoutMissing(graph::GraphBuilder &b, mlir::Value x, SamplePlace place, dist::Reduction reduction);

  StepFunction &step;
  mlir::OpBuilder &builder;
  mlir::IRMapping &mapping;
  std::optional<SamplePlaces> places; // of a loss in the file
  mlir::Value rowsArgument;
  llvm::SmallVector<std::pair<mlir::Value, mlir::Value>> whole; // operands, and what they were mapped to
  std::optional<SampleSums> sums;
  std::vector<std::unique_ptr<mlir::Block>> pieces; // simpler operations of @loss, in no function
};

} // namespace divisi::training
