#pragma once
#include "compiler/Pipeline.h"
#include "passes/Planning/PlanText.h"

namespace divisi::compiler {

/// On a plan: fused projections were split before it was made, as they are wherever there is an axis "model".
inline constexpr llvm::StringLiteral splitProjections = "split_projections";

/// Writes how a step runs in microbatches and stages as the attribute `pipeline` of the plan at the head of a module
/// with microbatches; of stages of one device, with a plan that splits nothing. `cuts` may be empty: stages that take
/// equally long.
void writePipeline(mlir::ModuleOp module, const MicrobatchOptions &options, const planning::PlanSubject &subject);

/// What writePipeline has written; one microbatch on one stage, if nothing. Fails with an error at the plan.
mlir::FailureOr<MicrobatchOptions> readPipeline(dist::PlanOp plan);

/// Makes the training step the one that a plan was made for, and reads the plan's pipeline.
mlir::FailureOr<MicrobatchOptions> follow(dist::PlanOp plan, TrainOptions &train);

/// What the training step depends on of its microbatches.
void follow(const MicrobatchOptions &microbatches, TrainOptions &train);

} // namespace divisi::compiler
