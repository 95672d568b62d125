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

/// Pipelines for a module at the level train whose operations are simple, best first: numbers of stages and
/// microbatches, schedules, and for each the plans of a stage's devices. The model is cut by dynamic programming over
/// its nodes and every candidate simulated. Empty if nothing divides.
std::vector<PipelineCandidate> rankPipelines(mlir::ModuleOp module, const planning::Cluster &cluster,
                                             const PipelineRequest &request);

/// For reports: name, step_ms, fits, memory_bytes, bubble, mesh of a stage, its plan, messages between stages, and
/// their first nodes.
llvm::json::Array describePipelines(const std::vector<PipelineCandidate> &candidates);

} // namespace divisi::compiler
