#pragma once
#include "dialects/Graph/GraphBuilder.h"
#include "passes/Training/StepFunction.h"

namespace divisi::training {

/// Dynamic loss scaling (arXiv 1710.03740) as torch.amp.GradScaler does it: the loss is multiplied by a factor, so that
/// small gradients are numbers of 16 bits; the gradients are divided by it. A step with a gradient that is not finite
/// changes nothing but the factor, which it halves; 2,000 others in a row double it.
class LossScaling {
public:
  /// Adds its state to the step.
  LossScaling(StepFunction &step, mlir::Location loc);

  mlir::Value scale(graph::GraphBuilder &b, mlir::Value loss) const;
  /// Gradients of the scaled loss become those of the loss. To be called once.
  void unscale(graph::GraphBuilder &b, llvm::ArrayRef<mlir::Value *> gradients);
  /// The number of this step among those that change something, from its number among all.
  mlir::Value effective(graph::GraphBuilder &b, mlir::Value step) const;
  /// A renewed state, or the one before if a gradient was not finite.
  mlir::Value choose(graph::GraphBuilder &b, mlir::Value renewed, mlir::Value before) const;
  void renew(graph::GraphBuilder &b, StepFunction &step) const;

private:
  mlir::Value offset, good, skipped; // scalars: the factor less its first value; steps in a row; all steps
  mlir::Value finite;                // i1
};

} // namespace divisi::training
