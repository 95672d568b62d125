#pragma once
#include "passes/Planning/Simulator/Schedule.h"
#include "llvm/ADT/SmallVector.h"

namespace divisi::planning::pipeline {

/// Values that are sent one after another, each as a message of its own.
struct Load {
  double bytes = 0; // of all
  int64_t values = 1;
};

/// What one stage produces and a later one reads: the next stage, or a skip connection. Gradients are sent back along
/// the same edge.
struct Edge {
  int producer, consumer;        // stages
  double bytes = 0;              // of one microbatch
  int64_t values = 1;            // that have these bytes together
  std::optional<Load> back = {}; // of the gradients; none: the same

  Load load(bool gradient) const { return gradient && back ? *back : Load{bytes, values}; }
};
/// An edge from every stage to the next one.
std::vector<Edge> chainEdges(int stages, double bytes = 0);

/// What is sent along an edge for one microbatch, one way.
struct Message {
  bool gradient;
  int edge, microbatch;

  /// A unique number below 2 x edges x microbatches.
  size_t slot(int microbatches) const { return ((size_t)edge * microbatches + microbatch) * 2 + gradient; }
  auto operator<=>(const Message &) const = default;
};

/// The values that the tasks of each stage produce and read along the edges, also between stages of one device.
class StageEdges {
public:
  StageEdges(const std::vector<Edge> &edges, int stages);
  llvm::SmallVector<Message, 4> made(const Task &task, int stage) const { return messages(task, stage, out, in); }
  llvm::SmallVector<Message, 4> needed(const Task &task, int stage) const { return messages(task, stage, in, out); }

private:
  using ByStage = std::vector<std::vector<int>>;
  static llvm::SmallVector<Message, 4> messages(const Task &task, int stage, const ByStage &activations,
                                                const ByStage &gradients);

  ByStage out, in; // edges
};

/// One action of a device's program.
struct Action {
  enum Kind { run, send, receive };
  Kind kind;
  Task task = {};       // of run
  Message message = {}; // of send and receive
  int peer = -1;        // the device at the other end
};
/// "forward of microbatch 3", "send of activation 1 -> 2, microbatch 3, to device 2".
std::string describe(const Action &action, const std::vector<Edge> &edges);

/// A schedule with its messages. There are none between stages of one device.
struct Program {
  ScheduleOptions options;
  std::vector<Edge> edges;
  std::vector<std::vector<Action>> devices;

  int senderStage(const Message &m) const { return m.gradient ? edges[m.edge].consumer : edges[m.edge].producer; }
  int receiverStage(const Message &m) const { return m.gradient ? edges[m.edge].producer : edges[m.edge].consumer; }
};

/// Adds the messages. A send follows the task that produces the value. A receive precedes the task that reads the
/// value, or is earlier where the sender's order requires it, so that every pair of devices sends and receives in the
/// same order. Fails with a one-line error if checkTasks refuses the schedule, or if an edge names no stage or goes
/// against the direction of the model.
llvm::Expected<Program> addTransfers(const Schedule &schedule, std::vector<Edge> edges);

} // namespace divisi::planning::pipeline
