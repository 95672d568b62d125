#pragma once
#include "dialects/Dist/StageAxes.h"

#include <string>
#include <vector>

namespace divisi::compiler {

/// Schedules whose steps overlap: an update for every minibatch, or for every batch of several microbatches.
inline constexpr llvm::StringLiteral asynchronousSchedule = "pipedream", doubleBufferedSchedule = "pipedream-2bw";

/// How a step runs in microbatches, on one device or in a pipeline: the options of the passes in Pipelining.
struct MicrobatchOptions {
  int64_t microbatches = 1, stages = 1;
  int64_t chunks = 1;                // stages of a device
  std::string schedule = "1f1b";     // gpipe, ...
  std::string staleness = "stashed"; // of the weights in an asynchronous pipeline
  std::vector<std::string> cuts;     // where stages begin, as pipelining::placeStages takes it
  dist::StageAxes axes;              // axes of the stages' mesh that each stage has
  std::vector<int64_t> replicas;     // of each stage, which take microbatches in turn; empty: one each
  int64_t remat = 0;                 // with stages: segments that are recomputed; allParts: all

  static constexpr int64_t allParts = 65536;
  static constexpr int64_t most = 65536; ///< microbatches of a step

  bool servedUpdate = false; // dedicated servers update the parameters: a task of its own

  /// Whether steps overlap, without a pipeline flush in between.
  bool asynchronous() const { return unsplit() || doubleBuffered(); }
  /// Whether a step is one minibatch whose tasks run in several steps.
  bool unsplit() const { return schedule == asynchronousSchedule && stages > 1; }
  /// Whether batches of several microbatches overlap, with two versions of the weights (PipeDream-2BW).
  bool doubleBuffered() const { return schedule == doubleBufferedSchedule && stages > 1; }
  /// Whether stages, or a device and the servers of its parameters, work one after the other on the whole batch.
  bool whole() const { return microbatches == 1 && (stages > 1 || servedUpdate) && !asynchronous(); }
  bool any() const { return microbatches > 1 || stages > 1 || servedUpdate; }
  /// What is wrong with `replicas` for the mesh of a stage; else "".
  std::string wrongReplicas(const dist::Mesh &mesh) const;
  /// `replicas` as text: "2,1".
  std::string replicasText() const;
  /// The number of devices of all stages.
  int64_t devices(const dist::Mesh &mesh) const;
};

} // namespace divisi::compiler
