#pragma once
#include "dialects/Graph/Graph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace divisi::pipelining {

/// Loss scaling in an asynchronous step, in which no update of a minibatch has the gradients of all stages at once. A
/// stage skips its update if a gradient of the minibatch is not finite on this stage or on a later one, and counts the
/// minibatches whose updates it skipped in state of its own, "divisi.skipped_steps.1" on stage 1.
class StageDecisions {
public:
  StageDecisions() = default;
  /// Adds the counts of each stage to a step whose operations have stages: the number of elements that are not finite,
  /// to which the next stage's number comes in the backward pass, and the number of skipped minibatches. Without loss
  /// scaling, leaves the function as it is. `replicas`: of each stage, which take minibatches in turn; empty: one.
  StageDecisions(mlir::func::FuncOp train, int64_t stages, llvm::ArrayRef<int64_t> replicas);

  /// What a stage reads in place of a value of the whole step; most often the value itself.
  mlir::Value of(int64_t stage, mlir::Value value) const {
    auto it = values.find(value);
    return it == values.end() ? value : it->second[stage];
  }
  /// The number of minibatches whose update a stage has skipped, an i64 scalar; null without loss scaling.
  mlir::BlockArgument skipped(int64_t stage) const {
    return skippedByAll ? mlir::cast<mlir::BlockArgument>(of(stage, skippedByAll)) : mlir::BlockArgument();
  }

private:
  mlir::BlockArgument skippedByAll;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value>> values; // by value of the step: those of the stages
};

} // namespace divisi::pipelining
