#pragma once
#include "passes/Planning/Simulator/Schedule.h"
#include "llvm/ADT/SmallVector.h"

namespace divisi::planning::pipeline {

/// A value that one stage makes and a later one reads: the neighbour, or a long skip. Its gradient goes back the same
/// way.
struct Edge {
  int producer, consumer; // stages
  double bytes = 0;       // of one microbatch, each way
};
/// An edge from every stage to the next one.
std::vector<Edge> chainEdges(int stages, double bytes = 0);

/// What travels along an edge for one microbatch.
struct Message {
  bool gradient;
  int edge, microbatch;

  /// A number below 2 x edges x microbatches.
  size_t slot(int microbatches) const { return ((size_t)edge * microbatches + microbatch) * 2 + gradient; }
  auto operator<=>(const Message &) const = default;
};

/// What the tasks of each stage make and need along the edges, also between stages of one device.
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

/// One step of a device's program.
struct Action {
  enum Kind { run, send, receive };
  Kind kind;
  Task task = {};       // of run
  Message message = {}; // of send and receive
  int peer = -1;        // the device at the other end
};
/// "forward of microbatch 3", "send of activation 1 -> 2, microbatch 3, to device 2".
std::string describe(const Action &action, const std::vector<Edge> &edges);

/// A schedule with its messages. Between stages of one device there are none.
struct Program {
  ScheduleOptions options;
  std::vector<Edge> edges;
  std::vector<std::vector<Action>> devices;

  int senderStage(const Message &m) const { return m.gradient ? edges[m.edge].consumer : edges[m.edge].producer; }
  int receiverStage(const Message &m) const { return m.gradient ? edges[m.edge].producer : edges[m.edge].consumer; }
};

/// Adds the messages: a send follows the task that makes the value, a receive stands before the task that needs it, or
/// earlier where the sender's order asks for it, so that every pair of devices sends and receives in the same order. On
/// failure (a schedule that checkTasks refuses, edges of no stage or against the direction of the model) an error of
/// one line.
llvm::Expected<Program> addTransfers(const Schedule &schedule, std::vector<Edge> edges);

} // namespace divisi::planning::pipeline
