#include "passes/Planning/Simulator/Transfers.h"
#include "passes/Planning/Simulator/Checker.h"
#include "llvm/ADT/STLExtras.h"

#include <map>

using namespace divisi::planning;
using namespace divisi::planning::pipeline;

std::vector<Edge> pipeline::chainEdges(int stages, double bytes) {
  std::vector<Edge> edges;
  for (int s = 0; s + 1 < stages; ++s)
    edges.push_back({s, s + 1, bytes});
  return edges;
}

std::string pipeline::describe(const Action &action, const std::vector<Edge> &edges) {
  if (action.kind == Action::run)
    return describe(action.task);
  const Message &m = action.message;
  int from = edges[m.edge].producer, to = edges[m.edge].consumer;
  if (m.gradient)
    std::swap(from, to);
  bool send = action.kind == Action::send;
  return (send ? "send" : "receive") + std::string(m.gradient ? " of gradient " : " of activation ") +
         std::to_string(from) + " -> " + std::to_string(to) + ", microbatch " + std::to_string(m.microbatch) +
         (send ? ", to device " : ", from device ") + std::to_string(action.peer);
}

StageEdges::StageEdges(const std::vector<Edge> &edges, int stages) : out(stages), in(stages) {
  for (auto [e, edge] : llvm::enumerate(edges)) {
    out[edge.producer].push_back(e);
    in[edge.consumer].push_back(e);
  }
}

llvm::SmallVector<Message, 4> StageEdges::messages(const Task &task, int stage, const ByStage &activations,
                                                   const ByStage &gradients) {
  llvm::SmallVector<Message, 4> result;
  if (task.kind == Task::forward)
    for (int e : activations[stage])
      result.push_back({false, e, task.microbatch});
  else if (task.sendsGradient())
    for (int e : gradients[stage])
      result.push_back({true, e, task.microbatch});
  return result;
}

namespace {

class Transfers {
public:
  Transfers(const Schedule &schedule, std::vector<Edge> edges)
      : schedule(schedule), o(schedule.options), program{o, std::move(edges), {}},
        stageEdges(program.edges, o.stages()) {}

  Program run() {
    for (int device = 0; device < o.devices; ++device)
      collect(device);
    for (int device = 0; device < o.devices; ++device)
      write(device);
    return std::move(program);
  }

private:
  using Receives = std::map<size_t, std::vector<Action>>; // by the task that they precede

  void collect(int device) {
    for (auto [i, task] : llvm::enumerate(schedule.devices[device])) {
      int stage = o.stageOf(device, task.chunk);
      for (const Message &message : stageEdges.made(task, stage))
        if (int peer = o.deviceOf(program.receiverStage(message)); peer != device)
          sent[{device, peer}].push_back(message);
      for (const Message &message : stageEdges.needed(task, stage))
        needed[message] = i;
    }
  }

  void write(int device) {
    Receives receives;
    for (int peer = 0; peer < o.devices; ++peer) {
      auto found = sent.find({peer, device});
      if (found == sent.end())
        continue;
      // From the last to the first, so that no receive is behind a later one.
      const std::vector<Message> &order = found->second;
      std::vector<size_t> place(order.size());
      for (size_t i = order.size(), least = SIZE_MAX; i-- > 0;)
        place[i] = least = std::min(least, needed.at(order[i]));
      for (auto [message, at] : llvm::zip(order, place))
        receives[at].push_back({Action::receive, {}, message, peer});
    }
    std::vector<Action> &actions = program.devices.emplace_back();
    for (auto [i, task] : llvm::enumerate(schedule.devices[device])) {
      llvm::append_range(actions, receives[i]);
      actions.push_back({Action::run, task});
      for (const Message &message : stageEdges.made(task, o.stageOf(device, task.chunk)))
        if (int peer = o.deviceOf(program.receiverStage(message)); peer != device)
          actions.push_back({Action::send, {}, message, peer});
    }
  }

  const Schedule &schedule;
  const ScheduleOptions &o;
  Program program;
  StageEdges stageEdges;
  std::map<std::pair<int, int>, std::vector<Message>> sent; // by sender and receiver
  std::map<Message, size_t> needed;                         // the task that reads it, by position
};
} // namespace

llvm::Expected<Program> pipeline::addTransfers(const Schedule &schedule, std::vector<Edge> edges) {
  if (std::string wrong = checkTasks(schedule); !wrong.empty())
    return llvm::createStringError(wrong);
  for (const Edge &edge : edges)
    if (edge.producer < 0 || edge.producer >= edge.consumer || edge.consumer >= schedule.options.stages())
      return llvm::createStringError("edge " + std::to_string(edge.producer) + " -> " + std::to_string(edge.consumer) +
                                     ": it has to lead from a stage to a later one of " +
                                     std::to_string(schedule.options.stages()));
  return Transfers(schedule, std::move(edges)).run();
}
