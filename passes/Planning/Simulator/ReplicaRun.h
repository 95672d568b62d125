#pragma once
#include "passes/Planning/Simulator/Jobs.h"
#include "passes/Planning/Simulator/Replicas.h"

#include <random>
#include <set>

namespace divisi::planning::pipeline {

/// Deals the shares of the batches in order.
class Shares {
public:
  using Share = std::pair<int, int>; // the batch, and the number in it

  explicit Shares(const ReplicaOptions &options) : o(options) {}

  /// The next share; null: none is left, or (with a bound) one of a batch that is too much older is not finished.
  std::optional<Share> deal();
  void finish(const Share &share) { open.erase(share); }

private:
  const ReplicaOptions &o;
  Share next = {0, 0};
  std::set<Share> open; // dealt, and not finished
};

/// What workers and servers do, in simulated time; a mode says in which order.
class ReplicaRun {
public:
  explicit ReplicaRun(const ReplicaOptions &options);
  virtual ~ReplicaRun() = default;

  ReplicaSimulation run();

protected:
  using Done = std::function<void()>;
  struct Message {
    int from, to, worker, batch;
  };

  /// Starts the first step.
  virtual void begin() = 0;

  /// A share of a batch, by a worker.
  void compute(int worker, int batch, int index, Done done);
  /// An update of a part of the parameters, on a device; by all gradients if `worker` is -1.
  void update(int device, int worker, int batch, double part, Done done, int index = -1);
  /// A message with a part of the parameters or gradients; none within a device.
  void send(ReplicaEvent::Kind kind, const Message &message, double part, Done done);
  /// Communication of a worker whose time is given.
  void exchange(int worker, int batch, ReplicaEvent::Kind kind, double seconds, double bytes);
  /// Counts a worker that has come. When all have, they communicate for this time, and each goes on.
  void meet(int batch, ReplicaEvent::Kind kind, double seconds, const std::function<void(int worker)> &then);

  /// Goes on with a worker that has its parameters, or if workers compute together, with all when the last one has.
  void goOn(int worker, const std::function<void(int worker)> &then);

  const ReplicaOptions o;
  Jobs jobs;
  ReplicaSimulation result;

private:
  enum Unit { processor, incoming, outgoing, units };
  int resource(int device, Unit unit) const { return device * units + (o.overlap ? unit : processor); }

  /// A number from 0 to 1. Each worker has its own, so that its n-th computation takes the same time in every mode.
  double draw(int worker);

  std::vector<std::mt19937_64> random; // by worker
  int come = 0;                        // workers that have come to meet
};

} // namespace divisi::planning::pipeline
