#pragma once
#include "divisi/ReplicaFlags.h"
#include "passes/Planning/Simulator/Simulator.h"

namespace divisi::tools {

/// A pipeline with given times of its stages.
struct SimulatedPipeline {
  planning::pipeline::ScheduleOptions options;
  std::vector<planning::pipeline::StageCost> stages;
  std::vector<planning::pipeline::Edge> edges;
  planning::pipeline::Network network;
};

/// The flags of `divisi simulate`.
struct SimulateFlags {
  std::string schedule, staleness = "stashed", title, svg, html, trace;
  int stages = 0, microbatches = 1, chunks = 1;
  std::vector<double> forward = {1}, inputGradient = {1}, weightGradient = {1}, update = {0}, allReduce = {0};
  std::vector<double> activations = {0}, parameters = {0}, state = {0}; // MB
  std::vector<std::string> skips;
  double transfer = 0, message = 0, bandwidth = 0; // ms, MB, GB/s
  bool noOverlap = false, json = false;
  ReplicaFlags replicas;

  void addTo(CLI::App &command);
  /// The pipeline, or the replicas, that are asked for. Returns an error text, or "".
  std::string read(const CLI::App &command, SimulatedPipeline &pipeline) const;
  std::string read(const CLI::App &command, planning::pipeline::ReplicaOptions &options);
};

} // namespace divisi::tools
