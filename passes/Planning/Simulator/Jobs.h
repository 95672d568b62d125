#pragma once
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <functional>
#include <list>
#include <queue>
#include <vector>

namespace divisi::planning::pipeline {

/// A discrete-event simulation of jobs, each of which occupies some resources for a time. A job starts as soon as all
/// of its resources are free; of several that wait for one, that which asked first. Deterministic.
class Jobs {
public:
  using Resources = llvm::SmallVector<int, 2>;

  explicit Jobs(size_t resources) : isTaken(resources), wanted(resources) {}

  double now() const { return time; }

  /// Calls `action` when this time has passed.
  void after(double seconds, std::function<void()> action) {
    events.push({time + seconds, count++, std::move(action)});
  }

  /// Occupies the resources for this time, then calls done(start).
  void occupy(Resources resources, double seconds, std::function<void(double)> done) {
    asked.push_back({std::move(resources), seconds, std::move(done)});
  }

  /// Runs until nothing is left to do.
  void run() {
    startJobs();
    while (!events.empty()) {
      // What ends at the same time, to rounding, frees its resources before anything starts.
      for (double last = events.top().time * (1 + rounding); !events.empty() && events.top().time <= last;) {
        auto action = std::move(const_cast<Event &>(events.top()).action); // popped at once
        time = events.top().time;
        events.pop();
        action();
      }
      startJobs();
    }
  }

private:
  static constexpr double rounding = 1e-12;

  struct Job {
    Resources resources;
    double seconds;
    std::function<void(double)> done;
  };
  struct Event {
    double time;
    int64_t number;
    std::function<void()> action;
    bool operator<(const Event &other) const { return std::pair(time, number) > std::pair(other.time, other.number); }
  };

  bool isFree(const Job &job) const {
    return llvm::none_of(job.resources, [&](int resource) { return isTaken[resource]; });
  }

  void start(Job job) {
    for (int resource : job.resources)
      isTaken[resource] = true;
    after(job.seconds, [this, start = time, job = std::move(job)] {
      for (int resource : job.resources) {
        isTaken[resource] = false;
        freed.push_back(resource);
      }
      job.done(start);
    });
  }

  /// Starts what can start: first what has waited longest.
  void startJobs() {
    auto isNoUse = [&](int resource) { return isTaken[resource] || wanted[resource] == 0; };
    for (auto it = waiting.begin(); it != waiting.end() && !llvm::all_of(freed, isNoUse);) {
      auto job = it++;
      if (!isFree(*job))
        continue;
      for (int resource : job->resources)
        --wanted[resource];
      start(std::move(*job));
      waiting.erase(job);
    }
    freed.clear();
    for (Job &job : asked)
      if (isFree(job)) {
        start(std::move(job));
      } else {
        for (int resource : job.resources)
          ++wanted[resource];
        waiting.push_back(std::move(job));
      }
    asked.clear();
  }

  double time = 0;
  int64_t count = 0;
  std::priority_queue<Event> events; // the earliest first
  std::vector<Job> asked;            // since jobs were started
  std::list<Job> waiting;            // in the order in which they asked
  std::vector<bool> isTaken;
  std::vector<int> wanted; // by resource: jobs that wait
  Resources freed;         // since jobs were started
};

} // namespace divisi::planning::pipeline
