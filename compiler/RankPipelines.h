#pragma once
#include "compiler/PipelineCandidate.h"

#include "llvm/Support/JSON.h"

namespace divisi::compiler {

struct PipelineRequest {
  int64_t devices = 1;
  int64_t microbatches = 0, stages = 0; // 0: to be chosen
  std::string schedule;                 // empty: to be chosen among 1f1b, interleaved and zb-h1
  bool asynchronous = false;            // pipedream, too: of a module with marked gradients
  std::optional<bool> remat = {};       // whether stages recompute segments; null: if they do not fit otherwise
};

/// The number of microbatches nearest to `wanted` in ratio, of those that divide the batch into microbatches of a
/// multiple of `rows` and are a multiple of `multiple`; 1 if there is none.
int64_t microbatchesNear(int64_t batch, double wanted, int64_t rows = 1, int64_t multiple = 1);
/// The number of microbatches for each stage that keeps pipelines busy.
inline constexpr double usualMicrobatchesPerStage = 4;

/// The first dimension of the first input of a module before it is split into microbatches; 0 if there is none.
int64_t batchOf(mlir::ModuleOp module);

/// Pipelines for a module at the level train with simple operations, best first: numbers of stages and microbatches,
/// schedules, and for each the plans of a stage's devices. The model is cut by dynamic programming over its nodes, and
/// every candidate is simulated. Empty if no number divides the batch or the devices.
std::vector<PipelineCandidate> rankPipelines(mlir::ModuleOp module, const planning::Cluster &cluster,
                                             const PipelineRequest &request);

/// Why there is no pipeline for a request: the numbers that do not divide, or what the first attempt failed with.
std::string whyNoPipeline(mlir::ModuleOp module, const planning::Cluster &cluster, const PipelineRequest &request);

/// Whether pipelines are worth a search beside the best plan without them: if that plan does not fit, or if it is
/// predicted to take a tenth longer than its computation, divided evenly among the devices.
bool mayPipelinesWin(const planning::Cluster &cluster, const planning::ModuleCandidate &best, int64_t devices);

/// The best pipeline, if a search is worthwhile and it is clearly better than that plan: only it fits, or it is 5 %
/// faster.
std::optional<PipelineCandidate> betterPipeline(mlir::ModuleOp module, const planning::Cluster &cluster,
                                                const PipelineRequest &request, const planning::ModuleCandidate &best);

/// For reports: name, step_ms, devices, fits, memory_bytes, bubble, mesh of a stage, its plan, messages between stages, and the
/// stages' first nodes.
llvm::json::Array describePipelines(const std::vector<PipelineCandidate> &candidates);

} // namespace divisi::compiler
