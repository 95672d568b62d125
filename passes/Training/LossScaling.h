#pragma once
#include "dialects/Graph/GraphBuilder.h"
#include "passes/Training/StepFunction.h"

namespace divisi::training {

/// The role of its state, and the names of the scale less its first value, and of the number of skipped updates.
inline constexpr llvm::StringLiteral scalingRole = "scaling", lossScaleOffset = "divisi.loss_scale_offset",
                                     skippedSteps = "divisi.skipped_steps";

/// Dynamic loss scaling (arXiv 1710.03740) as torch.amp.GradScaler does it. The loss is multiplied by a factor, so that
/// small gradients are not zero in 16 bits, and the gradients are divided by it. A step with a gradient that is not
/// finite is skipped and halves the factor; 2,000 successive finite steps double it.
class LossScaling {
public:
  /// Adds the scaling's state to the step.
  LossScaling(StepFunction &step, mlir::Location loc);

  mlir::Value scale(graph::GraphBuilder &b, mlir::Value loss) const;
  /// Turns gradients of the scaled loss into those of the loss, and counts what is not finite in them. To be called once.
  void unscale(graph::GraphBuilder &b, llvm::ArrayRef<mlir::Value *> gradients);
  /// Decides whether the step is skipped; `mark`: the count is the last that the backward pass computes.
  void decide(graph::GraphBuilder &b, bool mark);
  /// The number of this step without the skipped ones, from its number among all steps.
  mlir::Value effective(graph::GraphBuilder &b, mlir::Value step) const;
  /// The renewed state, or the old one if a gradient was not finite.
  mlir::Value choose(graph::GraphBuilder &b, mlir::Value renewed, mlir::Value before) const;
  void renew(graph::GraphBuilder &b, StepFunction &step) const;

private:
  mlir::Value offset, good, skipped; // scalars: factor - first factor; successive finite steps; skipped steps
  mlir::Value wrong;                 // f32: how many elements of gradients are not finite
  mlir::Value finite;                // i1: whether all gradients are finite
};

} // namespace divisi::training
