#pragma once
#include "passes/Planning/Simulator/Checker.h"

#include <functional>
#include <map>

namespace divisi::planning::pipeline {

/// The cost of one microbatch on a stage, in seconds and bytes of one device.
struct StageCost {
  double forward = 0, inputGradient = 0, weightGradient = 0; // a whole backward is the sum of the last two
  double update = 0;
  double allReduce = 0;       // of the stage's gradients over its replicas, before each update
  double activationBytes = 0; // kept from a microbatch's forward to the end of its backward or weight gradient
  double parameterBytes = 0;  // of one version of the weights
  double stateBytes = 0;      // gradients, optimizer state and everything else that exists once
};

struct Network {
  /// Seconds of a message from one device to another.
  std::function<double(int from, int to, double bytes)> seconds = [](int, int, double) { return 0.0; };
  /// If true, sends and all_reduces run on a communication stream of the device, in the order in which its program
  /// issues them. Otherwise they keep the device from computing. Receiving takes no time of the device except for the
  /// wait.
  bool overlap = true;
};
/// latency + bytes / bandwidth; seconds, bytes/s.
Network uniformNetwork(double latency, double bandwidth);

/// One event of a simulated run.
struct Event {
  enum Kind { compute, transfer, allReduce };
  Kind kind;
  int device; // of a transfer: the sender
  double start = 0, end = 0;
  Task task = {};       // of compute; of allReduce: the update that depends on it
  Message message = {}; // of transfer
  int peer = -1;        // of transfer: the receiver
  double bytes = 0;     // of transfer
  int64_t values = 0;   // of transfer: its messages
};

struct Simulation {
  struct Sample {
    double time, bytes; // from this time on
    int microbatches;   // in flight
  };
  struct Device {
    double busy = 0;          // seconds of tasks
    double communicating = 0; // seconds of sends and all_reduce
    double bytesSent = 0;
    double fixedBytes = 0; // all versions of the weights, and state
    double peakBytes = 0;
    int peakMicrobatches = 0; // each chunk counts
    std::vector<Sample> memory;
  };
  struct Traffic {
    int64_t messages = 0;
    double bytes = 0;
  };

  ScheduleOptions options;
  std::vector<Edge> edges;
  std::vector<Event> events; // by start, then by device
  std::vector<Device> devices;
  std::map<std::pair<int, int>, Traffic> links; // by sender and receiver
  std::vector<int> weightVersions;              // kept versions, by stage
  std::vector<int> peakMicrobatches;            // by stage
  double seconds = 0;                           // until the last event ends
  /// In an asynchronous schedule: the time between two updates of stage 0 once the pipeline is full and before it
  /// drains, or seconds / minibatches if there are fewer than two such updates. Otherwise equal to `seconds`.
  double steadySeconds = 0;

  /// The share of device time in which tasks run.
  double utilization() const;
  /// The step's device time without tasks, divided by that with tasks.
  double bubble() const;
  /// Seconds of tasks on all devices.
  double busy() const;
};

/// Runs the program; `stages` has one entry for each stage. Deterministic. Fails with a one-line error if checkProgram
/// refuses the program, or if times or sizes are negative or not finite.
llvm::Expected<Simulation> simulate(const Program &program, const std::vector<StageCost> &stages,
                                    const Network &network);
/// Simulates the schedule with these options and its transfers.
llvm::Expected<Simulation> simulate(const ScheduleOptions &options, const std::vector<Edge> &edges,
                                    const std::vector<StageCost> &stages, const Network &network);

} // namespace divisi::planning::pipeline
