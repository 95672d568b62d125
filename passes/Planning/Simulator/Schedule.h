#pragma once
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace divisi::planning::pipeline {

/// p devices, m microbatches, v chunks of the model per device; by Narayanan et al. (arXiv 1806.03377, 2104.04473),
/// Huang et al. (1811.06965) and Qi et al. (2401.10241).
enum class ScheduleKind {
  naive,       // one microbatch at a time through all stages: model parallelism
  gpipe,       // all forward, then all backward
  f1b1,        // one forward, one backward: at most p microbatches in flight
  interleaved, // the same with v chunks per device: 1 / v of the bubble
  zbH1,        // 1F1B with delayed weight gradients: a third of the bubble if all tasks take equally long
  pipedream,   // 1F1B without a flush: an update after every minibatch
  pipedream2bw, // the same with an update after `batch` microbatches, of gradients one version old (2006.09503)
};

/// Which weights the forward and backward pass of a minibatch read in an asynchronous schedule.
enum class Staleness {
  stashed,      // forward: the newest; backward: those of the forward
  verticalSync, // forward and backward, on every stage: the version that stage 0 had when the minibatch entered it
  latest,       // the newest in both passes: the gradient belongs to no single version of the weights
  predicted,    // the newest, extrapolated by the momentum over the updates that come meanwhile (arXiv 1809.02839)
};

/// "naive", "gpipe", "1f1b", "interleaved", "zb-h1", "pipedream", "pipedream-2bw".
llvm::StringRef nameOf(ScheduleKind kind);
std::optional<ScheduleKind> parseScheduleKind(llvm::StringRef text);
/// "stashed", "vertical-sync", "latest", "predicted".
llvm::StringRef nameOf(Staleness staleness);
std::optional<Staleness> parseStaleness(llvm::StringRef text);
/// The names that the parsers know, for errors and help.
std::vector<std::string> scheduleKinds();
std::string scheduleKindNames();
std::string stalenessNames();

/// A task that a device runs without interruption. A whole `backward` is inputGradient and weightGradient in one.
struct Task {
  enum Kind { forward, backward, inputGradient, weightGradient, update };
  Kind kind;
  int microbatch; // of an update: the last microbatch whose gradient it applies
  int chunk;      // of the device

  /// Whether it is the last task to read the activations of the forward pass.
  bool freesActivations() const { return kind == backward || kind == weightGradient; }
  /// Whether it computes the gradient that is sent to the previous stages.
  bool sendsGradient() const { return kind == backward || kind == inputGradient; }
  bool operator==(const Task &) const = default;
};
llvm::StringRef nameOf(Task::Kind kind);
/// "forward of microbatch 3 (chunk 1)"; the chunk is left out if it is 0.
std::string describe(const Task &task);

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::f1b1;
  int devices = 1;
  int microbatches = 1; // of a step; in an asynchronous schedule, all that enter before the pipeline drains
  int chunks = 1;       // per device
  Staleness staleness = Staleness::stashed;
  std::vector<int64_t> replicas; // by device: those of its stage, which take microbatches in turn; empty: one each
  int batch = 1;                 // microbatches of an update in an asynchronous schedule; 1 but for pipedream-2bw

  static constexpr int64_t mostTasks = 4'000'000;

  /// Whether steps overlap.
  bool asynchronous() const { return unsplit() || doubleBuffered(); }
  /// Whether a step is one minibatch, which has an update of its own.
  bool unsplit() const { return kind == ScheduleKind::pipedream; }
  /// Whether batch t, of several microbatches, reads the weights that batch t - 2 has updated.
  bool doubleBuffered() const { return kind == ScheduleKind::pipedream2bw; }
  int64_t replicasOf(int device) const { return replicas.empty() ? 1 : replicas[device]; }
  /// The number of microbatches that enter a device between the forward and the backward pass of one of them, under
  /// 1F1B and in an asynchronous schedule: one for each replica of this and later devices, itself not counted.
  int lagOf(int device) const {
    int lag = -1;
    for (int later = device; later < devices; ++later)
      lag += replicasOf(later);
    return lag;
  }
  int stages() const { return devices * chunks; }
  /// Chunks are assigned round-robin: stage s is chunk s / p of device s % p.
  int stageOf(int device, int chunk) const { return chunk * devices + device; }
  int deviceOf(int stage) const { return stage % devices; }
  int chunkOf(int stage) const { return stage / devices; }
  /// An error text that names the wrong figure; empty if the options are valid.
  std::string invalid() const;
};

/// The task order of each device.
struct Schedule {
  ScheduleOptions options;
  std::vector<std::vector<Task>> devices;
};

/// The schedule with these options. Fails with a one-line error.
llvm::Expected<Schedule> makeSchedule(const ScheduleOptions &options);

} // namespace divisi::planning::pipeline
