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
  interleaved, // the same with v chunks per device: a v-th of the bubble
  zbH1,        // 1F1B with weight gradients delayed: a third of the bubble for equal parts
  pipedream,   // 1F1B without a flush: an update after every minibatch
};

/// Which weights the forward and backward pass of a minibatch read in an asynchronous schedule.
enum class Staleness {
  stashed,      // forward: the newest; backward: those of the forward
  verticalSync, // forward and backward, on every stage: as many updates as stage 0 had when the minibatch entered it
  latest,       // the newest, both times: the gradient is of no single set of weights
  predicted, // the newest, moved on by the momentum as far as the updates that will come meanwhile (arXiv 1809.02839)
};

/// "naive", "gpipe", "1f1b", "interleaved", "zb-h1", "pipedream".
llvm::StringRef nameOf(ScheduleKind kind);
std::optional<ScheduleKind> parseScheduleKind(llvm::StringRef text);
/// "stashed", "vertical-sync", "latest", "predicted".
llvm::StringRef nameOf(Staleness staleness);
std::optional<Staleness> parseStaleness(llvm::StringRef text);
/// The names that the parsers know, for errors and help.
std::string scheduleKindNames();
std::string stalenessNames();

/// What a device computes without a break. A whole `backward` is inputGradient and weightGradient in one.
struct Task {
  enum Kind { forward, backward, inputGradient, weightGradient, update };
  Kind kind;
  int microbatch; // of an update: the last one whose gradient it has
  int chunk;      // of the device

  /// It is the last to read what the forward pass kept.
  bool freesActivations() const { return kind == backward || kind == weightGradient; }
  /// It makes the gradient that goes to the stages before.
  bool sendsGradient() const { return kind == backward || kind == inputGradient; }
  bool operator==(const Task &) const = default;
};
llvm::StringRef nameOf(Task::Kind kind);
/// "forward of microbatch 3 (chunk 1)"; the chunk is left out if it is 0.
std::string describe(const Task &task);

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::f1b1;
  int devices = 1;
  int microbatches = 1; // of a step; in an asynchronous schedule, minibatches
  int chunks = 1;       // per device
  Staleness staleness = Staleness::stashed;

  static constexpr int64_t mostTasks = 4'000'000;

  bool asynchronous() const { return kind == ScheduleKind::pipedream; }
  /// Of an asynchronous schedule: so many minibatches enter a device between the forward and the backward pass of one.
  int lagOf(int device) const { return devices - device - 1; }
  int stages() const { return devices * chunks; }
  /// Chunks go round: stage s is chunk s / p of device s % p.
  int stageOf(int device, int chunk) const { return chunk * devices + device; }
  int deviceOf(int stage) const { return stage % devices; }
  int chunkOf(int stage) const { return stage / devices; }
  /// What is wrong, in words that name the figure; empty if nothing is.
  std::string invalid() const;
};

/// What runs when: one list for each device.
struct Schedule {
  ScheduleOptions options;
  std::vector<std::vector<Task>> devices;
};

/// The schedule with these options. On failure an error of one line.
llvm::Expected<Schedule> makeSchedule(const ScheduleOptions &options);

} // namespace divisi::planning::pipeline
