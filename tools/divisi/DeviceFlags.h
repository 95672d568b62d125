#pragma once
#include "compiler/RankPipelines.h"

#include <CLI/CLI.hpp>

namespace divisi::tools {

/// The flags of `divisi compile` that say on how many devices a step runs, and how it is split over them and over time.
struct DeviceFlags {
  std::string batchNormStats = "global", strategy, cluster, stageAxes;
  int64_t devices = 0, accumulate = 1;
  compiler::PlanOptions plan;
  compiler::MicrobatchOptions microbatches;
  bool pipelines = false; // a search is for pipelines, which must have this:
  compiler::PipelineRequest request;

  void addTo(CLI::App &command);
  /// Chooses mesh or search from what was given; what is wrong with the flags, in words, or nothing. Afterwards
  /// `plan.mesh` is that of one stage.
  std::string finish(const CLI::App &command);
  /// Whether any flag asks for a plan.
  bool asksForPlan() const {
    return plan.many() || devices || !strategy.empty() || plan.zero || microbatches.any() || microbatches.stages > 1 ||
           plan.remat.value_or(0) > 0;
  }

private:
  std::string chooseSearch();
  std::string chooseMesh();
  std::string choosePipeline(const CLI::App &command);
  std::string checkPins() const;
};

/// The flag --remat: see PlanOptions.
void addRemat(CLI::App &group, std::optional<int64_t> &remat);

/// What to say if a mesh does not have as many devices as are asked for (0: any number), or nothing.
std::string checkDevices(const std::string &mesh, int64_t ofMesh, int64_t devices);

} // namespace divisi::tools
