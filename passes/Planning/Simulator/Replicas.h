#pragma once
#include "dialects/Dist/Sync.h"

#include "llvm/Support/Error.h"

#include <cmath>
#include <map>

namespace divisi::planning::pipeline {

/// The factor by which computations are slower: drawn evenly between the two, for each of them.
struct Slowdown {
  double least = 1, most = 1;
};

/// Replicas of a model that are kept in step, and what their work takes, in seconds and bytes.
struct ReplicaOptions {
  dist::Sync sync;
  int workers = 1;                   // R: each computes a share of every batch; dedicated servers come on top
  int steps = 1;                     // batches
  std::vector<double> compute = {0}; // forward and backward pass of a share: of every worker, or of each
  double update = 0;                 // of all parameters; servers share it
  /// Of a message with all parameters or their gradients: latency + bytes / bandwidth. The bytes of a device's messages
  /// go over its link one after the other in each direction, and latencies overlap. Of K servers each has 1 / K of the
  /// bytes.
  double latency = 0, bytes = 0, bandwidth = INFINITY;
  /// driver, server: workers add something up within a step, as the labels that a loss counts: none computes before all
  /// have their parameters.
  bool together = true;
  bool overlap = true;                // otherwise a device neither computes nor updates while it sends or receives
  double allReduce = 0;               // of the gradients: what computation waits for
  std::optional<double> average;      // of parameters: local: of all workers (default: allReduce), gossip: with one
                                      // neighbour (default: a message; asynchronous: and its answer)
  std::map<int, Slowdown> stragglers; // by worker
  double jitter = 0; // each computation takes 1 + x times as long, x exponentially distributed with this mean
  uint64_t seed = 0;

  static constexpr int64_t mostEvents = 4'000'000;

  bool isColocated() const { return sync.mode == dist::Sync::Mode::server && sync.servers == 0; }
  int dedicatedServers() const { return static_cast<int>(sync.servers); }
  int devices() const { return workers + dedicatedServers(); }
  double messageSeconds() const { return latency + bytes / bandwidth; }
  /// An error text that names the wrong figure; empty if the options are valid.
  std::string invalid() const;
};

/// What a device does in a simulated run.
struct ReplicaEvent {
  enum Kind { share, update, push, pull, allReduce, average };
  Kind kind;
  int device; // of push and pull: the sender
  double start = 0, end = 0;
  int batch = 0;
  int worker = -1; // of share, and of update, push and pull: whose gradients or parameters they are; -1: those of all
  int index = -1;  // of a share and of an asynchronous update: the share of the batch
  int peer = -1;   // of push and pull: the receiver
};

struct ReplicaSimulation {
  struct Device {
    double busy = 0; // seconds of computation and updates
    double bytesSent = 0;
    int64_t shares = 0, updates = 0;
  };
  /// An update of asynchronous servers.
  struct Update {
    int worker, batch, index;
    int64_t pulled; // updates that the parameters had from which its gradient was computed
  };

  ReplicaOptions options;
  std::vector<ReplicaEvent> events; // by start, then by device
  std::vector<Device> devices;      // workers, then dedicated servers
  std::vector<Update> updates;      // of asynchronous servers, in their order
  double seconds = 0;
  double undisturbed = 0; // the same without stragglers and jitter

  double batchesPerSecond() const { return seconds > 0 ? options.steps / seconds : 0; }
  /// The throughput by that without stragglers.
  double relativeThroughput() const { return seconds > 0 ? undisturbed / seconds : 1; }
  double idleShare(size_t device) const { return seconds > 0 ? 1 - devices[device].busy / seconds : 0; }
  /// Updates between the pull and the update of a gradient.
  int64_t stalenessOf(size_t update) const { return static_cast<int64_t>(update) - updates[update].pulled; }
  double meanStaleness() const;
  int64_t largestStaleness() const;
};

/// The devices from which a replica receives parameters after its step `step` (from 0) of gossip.
llvm::SmallVector<int, 2> neighboursOf(int worker, int workers, int64_t step, dist::Sync::Topology topology);

/// Runs the steps. Deterministic. Fails with a one-line error if the options are invalid.
llvm::Expected<ReplicaSimulation> simulate(const ReplicaOptions &options);

} // namespace divisi::planning::pipeline
