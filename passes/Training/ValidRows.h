#pragma once
#include "dialects/Graph/GraphBuilder.h"
#include "passes/Training/SamplePlaces.h"
#include "passes/Training/StepFunction.h"

#include "mlir/IR/IRMapping.h"

namespace divisi::training {

/// Makes the losses of files right for a last batch of an evaluation, which may lack rows: operations that combine samples
/// leave out the rows that are missing, and sums of samples are scaled from `rows` to the whole batch. So a mean that the
/// file writes as a sum divided by the batch's size is that of the rows, and a ratio of sums stays as it is. Losses that the
/// compiler has added know the number of rows themselves.
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

  StepFunction &step;
  mlir::OpBuilder &builder;
  mlir::IRMapping &mapping;
  SamplePlaces places;
  bool active;
  mlir::Value rowsArgument;
  std::optional<SamplePlaces::Combination> combination;         // of the operation that is cloned
  llvm::SmallVector<std::pair<mlir::Value, mlir::Value>> whole; // operands, and what they were mapped to
  llvm::DenseSet<mlir::Value> unscaled;                         // sums of integers, which become floats first
};

} // namespace divisi::training
