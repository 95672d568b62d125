#pragma once
#include "compiler/Pipeline.h"
#include "dialects/Dist/Sync.h"
#include "passes/Planning/PlanText.h"

namespace divisi::compiler {

/// An attribute of a plan: fused projections were split before it was made. They are whenever there is an axis "model".
inline constexpr llvm::StringLiteral splitProjections = "split_projections";

/// Writes microbatches and stages as the attribute `pipeline` of the plan at the head of a module with microbatches. If
/// a stage is one device, the plan shards nothing. `cuts` may be empty: the stages then take equally long.
void writePipeline(mlir::ModuleOp module, const MicrobatchOptions &options, const planning::PlanSubject &subject);

/// Reads the attribute `pipeline`; one microbatch on one stage if there is none. Fails with an error at the plan.
mlir::FailureOr<MicrobatchOptions> readPipeline(dist::PlanOp plan);

/// Whether the step of a module is split into microbatches already: it is read from a dump.
bool isInMicrobatches(mlir::ModuleOp module);

/// Reads how the microbatches of such a module run, from its plan. Fails with an error at a function if there is no plan that says it.
llvm::LogicalResult readSplit(mlir::ModuleOp module, const dist::Sync &sync, MicrobatchOptions &microbatches);

/// Writes in a module that is not planned yet how its replicas are kept in step, unless by all-reduce, and their mesh, with the axis of stages. Fails
/// with an error at the module if it has the training step of another number of replicas that go apart.
llvm::LogicalResult noteReplicas(mlir::ModuleOp module, const dist::Sync &sync, const dist::Mesh &mesh);

/// How a module of level planned, dist or exec that was read back keeps replicas in step. Fails with an error if module, plan and tasks say different
/// things (pipelining::checkSync).
mlir::FailureOr<dist::Sync> syncOfPlanned(mlir::ModuleOp module);

/// Writes how replicas are kept in step as the attribute `sync` of the module's plan, if it has one.
void writeSync(mlir::ModuleOp module, const dist::Sync &sync);

/// Reads it: all-reduce if there is none. Fails with an error at the plan.
mlir::FailureOr<dist::Sync> readSync(dist::PlanOp plan);

/// Sets the options of the training step to those of the plan, and reads the plan's pipeline.
mlir::FailureOr<MicrobatchOptions> follow(dist::PlanOp plan, TrainOptions &train);

/// Sets the options of the training step that follow from its microbatches.
void follow(const MicrobatchOptions &microbatches, TrainOptions &train);

} // namespace divisi::compiler
