#pragma once
#include "compiler/PipelineCandidate.h"

#include "llvm/Support/JSON.h"

namespace divisi::compiler {

struct PipelineRequest {
  int64_t devices = 1;
  int64_t microbatches = 0, stages = 0; // 0: to be chosen
  std::string schedule;                 // empty: to be chosen among 1f1b, interleaved and zb-h1
  std::optional<bool> remat = {};       // whether stages compute parts again; nothing: where they do not fit otherwise
};

/// Of the numbers that divide a batch into parts of whole times so many rows, and are a multiple of `multiple`, the one
/// that is nearest to `wanted` in ratio; 1 if there is none.
int64_t microbatchesNear(int64_t batch, double wanted, int64_t rows = 1, int64_t multiple = 1);
/// What pipelines keep busy with, for each stage.
inline constexpr double usualMicrobatchesPerStage = 4;

/// The first dimension of the first input of a module before it has microbatches; 0 if there is none.
int64_t batchOf(mlir::ModuleOp module);

/// Pipelines for a module at the level train whose operations are simple, best first: numbers of stages and
/// microbatches, schedules, and for each the plans of a stage's devices. The model is cut by dynamic programming over
/// its nodes and every candidate simulated. Empty if nothing divides.
std::vector<PipelineCandidate> rankPipelines(mlir::ModuleOp module, const planning::Cluster &cluster,
                                             const PipelineRequest &request);

/// Whether pipelines are worth a search beside the best plan that splits operations: if that does not fit, or if it is
/// predicted to take a tenth longer than the computation alone, divided evenly among the devices.
bool mayPipelinesWin(const planning::Cluster &cluster, const planning::ModuleCandidate &best, int64_t devices);

/// The best pipeline, if it is worth a search and clearly better than that plan: if it alone fits, or is 5 % faster.
std::optional<PipelineCandidate> betterPipeline(mlir::ModuleOp module, const planning::Cluster &cluster,
                                                const PipelineRequest &request, const planning::ModuleCandidate &best);

/// For reports: name, step_ms, fits, memory_bytes, bubble, mesh of a stage, its plan, messages between stages, and
/// their first nodes.
llvm::json::Array describePipelines(const std::vector<PipelineCandidate> &candidates);

} // namespace divisi::compiler
