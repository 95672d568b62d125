#pragma once
#include "passes/Planning/Simulator/Transfers.h"

#include <random>

namespace divisi::planning::pipeline::test {

/// Up to 5 devices with up to 3 chunks, edges with skips, and tasks in a random order that one processor could run.
class RandomSchedule {
public:
  explicit RandomSchedule(unsigned seed) : random(seed) {
    ScheduleOptions &o = schedule.options;
    o = {ScheduleKind::gpipe, 1 + below(5), 1 + below(6), 1 + below(3)};
    schedule.devices.resize(o.devices);
    edges = chainEdges(o.stages(), 1);
    for (int i = below(4); i-- > 0 && o.stages() > 1;) {
      int producer = below(o.stages() - 1);
      edges.push_back({producer, producer + 1 + below(o.stages() - 1 - producer), 2});
    }
    for (int stage = 0; stage < o.stages(); ++stage) {
      bool split = below(2);
      for (int m = 0; m < o.microbatches; ++m) {
        todo.push_back({stage, {Task::forward, m, o.chunkOf(stage)}});
        todo.push_back({stage, {split ? Task::inputGradient : Task::backward, m, o.chunkOf(stage)}});
        if (split)
          todo.push_back({stage, {Task::weightGradient, m, o.chunkOf(stage)}});
      }
    }
    while (!todo.empty())
      pick();
    for (int stage = 0; stage < o.stages(); ++stage)
      schedule.devices[o.deviceOf(stage)].push_back({Task::update, o.microbatches - 1, o.chunkOf(stage)});
  }

  int below(int limit) { return (int)(random() % limit); }
  /// A multiple of 1/8, so that sums are exact.
  double number() { return below(64) / 8.0; }

  Schedule schedule;
  std::vector<Edge> edges;

private:
  struct Entry {
    int stage;
    Task task;
  };

  bool waitsFor(const Entry &entry, const Entry &other) const {
    if (entry.task.microbatch != other.task.microbatch || other.task.kind == Task::weightGradient)
      return false;
    if (entry.stage == other.stage)
      return other.task.kind < entry.task.kind;
    bool forward = entry.task.kind == Task::forward, otherForward = other.task.kind == Task::forward;
    for (const Edge &edge : edges)
      if ((forward && otherForward && edge.producer == other.stage && edge.consumer == entry.stage) ||
          (entry.task.sendsGradient() && !otherForward && edge.consumer == other.stage && edge.producer == entry.stage))
        return true;
    return false;
  }

  void pick() {
    std::vector<size_t> ready;
    for (size_t i = 0; i < todo.size(); ++i) {
      bool free = true;
      for (const Entry &other : todo)
        free = free && !waitsFor(todo[i], other);
      if (free)
        ready.push_back(i);
    }
    size_t chosen = ready[below(ready.size())];
    schedule.devices[schedule.options.deviceOf(todo[chosen].stage)].push_back(todo[chosen].task);
    todo.erase(todo.begin() + chosen);
  }

  std::mt19937 random;
  std::vector<Entry> todo;
};

} // namespace divisi::planning::pipeline::test
