#include "passes/Planning/Simulator/WeightVersions.h"

#include <algorithm>

using namespace divisi::planning;
using namespace divisi::planning::pipeline;

namespace {

class Versions {
public:
  Versions(const Schedule &schedule) : schedule(schedule), o(schedule.options) {}

  WeightVersions run() {
    entered.assign(o.microbatches, 0);
    result.kept.assign(o.stages(), 1);
    for (int device = 0; device < o.devices; ++device) {
      read(device);
      for (int chunk = 0; chunk < o.chunks; ++chunk)
        count(device, chunk);
      if (o.doubleBuffered() && o.lagOf(device) > 0)
        ++result.kept[device];
    }
    return std::move(result);
  }

private:
  void read(int device) {
    std::vector<int> newest(o.chunks);
    std::vector<std::vector<int>> forward(o.chunks, std::vector<int>(o.microbatches));
    std::vector<int> &versions = result.read.emplace_back();
    for (const Task &task : schedule.devices[device]) {
      int &version = versions.emplace_back(newest[task.chunk]);
      if (task.kind == Task::update) {
        version = ++newest[task.chunk];
      } else if (o.doubleBuffered()) {
        version = std::max(0, task.microbatch / o.batch - 1);
      } else if (task.kind == Task::forward) {
        if (device == 0 && task.chunk == 0)
          entered[task.microbatch] = version;
        if (o.staleness == Staleness::verticalSync)
          version = entered[task.microbatch];
        forward[task.chunk][task.microbatch] = version;
      } else if (o.staleness != Staleness::latest && o.staleness != Staleness::predicted) {
        version = forward[task.chunk][task.microbatch];
      }
    }
  }

  /// Goes through the tasks backwards and compares the oldest version that is still to be read with the newest one.
  void count(int device, int chunk) {
    const std::vector<Task> &tasks = schedule.devices[device];
    int oldest = -1, newest = 0;
    std::vector<int> before(tasks.size());
    for (size_t i = 0; i < tasks.size(); ++i) {
      before[i] = newest;
      newest += tasks[i].kind == Task::update && tasks[i].chunk == chunk;
    }
    for (size_t i = tasks.size(); i-- > 0;) {
      if (tasks[i].chunk != chunk || tasks[i].kind == Task::update)
        continue;
      int version = result.read[device][i];
      oldest = oldest < 0 ? version : std::min(oldest, version);
      int &kept = result.kept[o.stageOf(device, chunk)];
      kept = std::max(kept, before[i] - oldest + 1);
    }
  }

  const Schedule &schedule;
  const ScheduleOptions &o;
  std::vector<int> entered; // by minibatch: the version of stage 0 when it entered
  WeightVersions result;
};
} // namespace

WeightVersions pipeline::weightVersions(const Schedule &schedule) { return Versions(schedule).run(); }
