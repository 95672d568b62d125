#include "passes/Planning/Simulator/Waits.h"
#include "llvm/ADT/IntEqClasses.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>

using namespace divisi::planning;
using namespace divisi::planning::pipeline;

namespace {

/// The graph of waits. With rendezvous, a send and its receive begin and end together: they are one node. An edge leads
/// from an action to one that waits for it.
class Waits {
public:
  Waits(const Program &program, SendMode mode)
      : program(program), mode(mode), sends(2 * program.edges.size() * program.options.microbatches, -1),
        receives(sends) {
    for (auto [device, actions] : llvm::enumerate(program.devices)) {
      ranges.emplace_back(where.size(), where.size() + actions.size());
      for (size_t i = 0; i < actions.size(); ++i)
        where.emplace_back(device, i);
    }
    classes.grow(where.size());
    for (size_t action = 0; action < where.size(); ++action)
      note(action);
  }

  std::string run() {
    std::vector<std::pair<int, int>> waits = pairs(); // pairs of actions: the second waits for the first
    classes.compress();
    after.resize(classes.getNumClasses());
    for (auto [earlier, later] : waits)
      after[classes[earlier]].emplace_back(earlier, later);
    return search();
  }

private:
  const Action &at(int action) const { return program.devices[where[action].first][where[action].second]; }

  size_t slot(const Action &action) const { return action.message.slot(program.options.microbatches); }

  void note(int action) {
    const Action &a = at(action);
    if (a.kind == Action::run)
      tasks[{where[action].first, a.task.chunk, a.task.microbatch, a.task.kind}] = action;
    else if (a.kind == Action::send)
      sends[slot(a)] = action;
    else
      receives[slot(a)] = action;
  }

  std::vector<std::pair<int, int>> pairs() {
    std::vector<std::pair<int, int>> waits;
    for (auto [begin, end] : ranges)
      if (mode == SendMode::grouped)
        addGroups(begin, end, waits);
      else
        for (int action = begin + 1; action < end; ++action)
          waits.emplace_back(action - 1, action);
    for (auto [send, receive] : llvm::zip(sends, receives)) {
      if (send < 0) // both stages on one device
        continue;
      if (mode == SendMode::buffered)
        waits.emplace_back(send, receive);
      else
        classes.join(send, receive);
    }
    for (size_t e = 0; e < program.edges.size(); ++e)
      addLocal(e, waits);
    return waits;
  }

  /// Adds waits of grouped messages: they wait for the task before them, and the next task waits for all of them.
  void addGroups(int begin, int end, std::vector<std::pair<int, int>> &waits) {
    int task = -1, first = begin; // the last task; the first message behind it
    for (int action = begin; action < end; ++action) {
      if (task >= 0)
        waits.emplace_back(task, action);
      if (at(action).kind != Action::run)
        continue;
      for (; first < action; ++first)
        waits.emplace_back(first, action);
      task = action;
      ++first;
    }
  }

  /// Adds the wait of a task for another between stages of one device.
  void addLocal(int e, std::vector<std::pair<int, int>> &waits) {
    const ScheduleOptions &o = program.options;
    const Edge &edge = program.edges[e];
    int device = o.deviceOf(edge.producer);
    if (device != o.deviceOf(edge.consumer))
      return;
    auto gradient = [&](int stage, int microbatch) {
      auto split = tasks.find({device, o.chunkOf(stage), microbatch, Task::inputGradient});
      return split == tasks.end() ? tasks.at({device, o.chunkOf(stage), microbatch, Task::backward}) : split->second;
    };
    for (int microbatch = 0; microbatch < o.microbatches; ++microbatch) {
      waits.emplace_back(tasks.at({device, o.chunkOf(edge.producer), microbatch, Task::forward}),
                         tasks.at({device, o.chunkOf(edge.consumer), microbatch, Task::forward}));
      waits.emplace_back(gradient(edge.consumer, microbatch), gradient(edge.producer, microbatch));
    }
  }

  /// Depth-first search without recursion; a node that occurs on its own path closes a cycle.
  std::string search() {
    enum State : char { unseen, open, closed };
    std::vector<State> state(after.size(), unseen);
    std::vector<size_t> next(after.size());
    std::vector<int> path;                  // nodes
    std::vector<std::pair<int, int>> taken; // the edges between them
    for (size_t start = 0; start < after.size(); ++start) {
      if (state[start] != unseen)
        continue;
      path = {(int)start};
      state[start] = open;
      while (!path.empty()) {
        int node = path.back();
        if (next[node] == after[node].size()) {
          state[node] = closed;
          path.pop_back();
          if (!taken.empty())
            taken.pop_back();
          continue;
        }
        auto edge = after[node][next[node]++];
        int other = classes[edge.second];
        if (state[other] == open) {
          taken.push_back(edge);
          return describeCycle({taken.begin() + (llvm::find(path, other) - path.begin()), taken.end()});
        }
        if (state[other] == unseen) {
          state[other] = open;
          path.push_back(other);
          taken.push_back(edge);
        }
      }
    }
    return "";
  }

  /// Describes a cycle from its last edge to the first: which action waits for which.
  std::string describeCycle(std::vector<std::pair<int, int>> cycle) {
    auto text = [&](int action) {
      return "device " + std::to_string(where[action].first) + "'s " + describe(at(action), program.edges);
    };
    constexpr size_t most = 12;
    std::reverse(cycle.begin(), cycle.end());
    std::string result = "deadlock: ";
    for (size_t i = 0; i < std::min(cycle.size(), most); ++i) {
      auto [earlier, later] = cycle[i];
      result += (i ? "; " : "") + text(later) + " waits for " + text(earlier);
      // The next edge starts at the same node, but possibly at its other action.
      if (int same = cycle[(i + 1) % cycle.size()].second; same != earlier)
        result += ", which goes together with " + text(same);
    }
    return result + (cycle.size() > most ? "; and so on" : "");
  }

  const Program &program;
  SendMode mode;
  std::vector<std::pair<int, int>> ranges;             // by device: its actions
  std::vector<std::pair<int, int>> where;              // by action: the device and the position
  std::map<std::tuple<int, int, int, int>, int> tasks; // by device, chunk, microbatch and kind
  std::vector<int> sends, receives;                    // by number of the message
  llvm::IntEqClasses classes;
  std::vector<std::vector<std::pair<int, int>>> after; // by node: edges, as actions
};
} // namespace

std::string pipeline::findDeadlock(const Program &program, SendMode mode) { return Waits(program, mode).run(); }
