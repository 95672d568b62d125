#pragma once
#include "compiler/Pipeline.h"
#include "passes/Planning/ModulePlanner.h"
#include "passes/Planning/Simulator/Simulator.h"

#include "mlir/IR/OwningOpRef.h"

#include "llvm/Support/JSON.h"

namespace divisi::compiler {

/// A pipeline with a plan for the devices of its stages.
struct PipelineCandidate {
  MicrobatchOptions options;          // with the cuts by name
  planning::ModuleCandidate plan;     // of one stage's devices
  planning::pipeline::Simulation run; // of a step on the cluster
  double seconds = 0, memory = 0;     // of a step; bytes of the device that needs most
  bool fits = false;
  std::shared_ptr<mlir::OwningOpRef<mlir::ModuleOp>> module; // in microbatches: what the plan is for
  std::string hash;                                          // of that module, for a plan file

  /// "stage=2,data=2 1f1b microbatches=8".
  std::string name() const;
};

struct PipelineRequest {
  int64_t devices = 1;
  int64_t microbatches = 0, stages = 0; // 0: to be chosen
  std::string schedule;                 // empty: to be chosen among 1f1b, interleaved and zb-h1
};

/// Pipelines for a module at the level train whose operations are simple, best first: numbers of stages and microbatches, schedules,
/// and for each the plans of a stage's devices. The model is cut by dynamic programming over its nodes and every candidate
/// simulated. Empty if nothing divides.
std::vector<PipelineCandidate> rankPipelines(mlir::ModuleOp module, const planning::Cluster &cluster,
                                             const PipelineRequest &request);

/// For reports: name, step_ms, fits, memory_bytes, bubble, mesh of a stage, its plan, and the first nodes of stages.
llvm::json::Array describePipelines(const std::vector<PipelineCandidate> &candidates);

} // namespace divisi::compiler
