#include "passes/Planning/Simulator/Replicas.h"
#include "passes/Planning/Simulator/ServedReplicas.h"

#include "llvm/Support/MathExtras.h"

using namespace divisi::planning;
using namespace divisi::planning::pipeline;
using divisi::dist::Sync;

std::string ReplicaOptions::invalid() const {
  if (std::string wrong = sync.invalid(); !wrong.empty())
    return wrong;
  if (workers < 1 || steps < 1)
    return "there must be at least one worker and one step";
  if (compute.size() != 1 && compute.size() != (size_t)workers)
    return std::to_string(compute.size()) + " times of computation for " + std::to_string(workers) +
           " workers; give one, or one for each";
  for (auto [worker, factors] : stragglers) {
    if (worker < 0 || worker >= workers)
      return "straggler " + std::to_string(worker) + ": there are only the workers 0 to " + std::to_string(workers - 1);
    if (!(factors.least >= 0 && factors.most > 0 && factors.least <= factors.most && factors.most <= 1e6))
      return "straggler " + std::to_string(worker) +
             ": its computation takes longer by a factor above 0, and at most 1e6, or by factors from the smaller to "
             "the larger one";
  }
  int64_t perStep = 4 * (int64_t)workers;
  if (sync.mode == Sync::Mode::server || sync.mode == Sync::Mode::asyncServer)
    perStep += 3 * (int64_t)workers * (isColocated() ? workers : sync.servers);
  if (perStep * steps > mostEvents)
    return "steps: too many events: at most " + std::to_string(std::max<int64_t>(0, mostEvents / perStep)) +
           " steps can be simulated with these workers and servers";
  for (double seconds : compute)
    if (!(seconds >= 0 && seconds <= 1e12))
      return "times must be numbers from 0 to 1e12";
  for (double number : {update, latency, bytes, allReduce, average.value_or(0), jitter})
    if (!(number >= 0 && number <= 1e21))
      return "times and sizes must be at least 0, and finite";
  return bandwidth > 0 ? "" : "the bandwidth must be above 0";
}

double ReplicaSimulation::meanStaleness() const {
  double sum = 0;
  for (size_t i = 0; i < updates.size(); ++i)
    sum += (double)stalenessOf(i);
  return updates.empty() ? 0 : sum / (double)updates.size();
}

int64_t ReplicaSimulation::largestStaleness() const {
  int64_t most = 0;
  for (size_t i = 0; i < updates.size(); ++i)
    most = std::max(most, stalenessOf(i));
  return most;
}

llvm::SmallVector<int, 2> pipeline::neighboursOf(int worker, int workers, int64_t step, Sync::Topology topology) {
  auto at = [&](int64_t place) { return (int)((place + workers) % workers); };
  if (workers == 1)
    return {};
  if (topology == Sync::Topology::exponential)
    return {at(worker - (int64_t(1) << step % llvm::Log2_64_Ceil(workers)))};
  if (topology == Sync::Topology::pairs) {
    int shift = (int)(step % 2), place = at(worker - shift); // the ring is cut into pairs from `shift` on
    if (workers % 2 != 0 && place == workers - 1)
      return {};
    return {at(place % 2 == 0 ? worker + 1 : worker - 1)};
  }
  if (workers == 2)
    return {1 - worker};
  return {at(worker - 1), at(worker + 1)};
}

namespace {

/// Each worker computes its share of every batch.
class InOrder : public ReplicaRun {
public:
  using ReplicaRun::ReplicaRun;

  void begin() override {
    for (int worker = 0; worker < o.workers; ++worker)
      step(worker, 0);
  }

protected:
  void step(int worker, int batch) {
    if (batch < o.steps)
      compute(worker, batch, worker, [=, this] { computed(worker, batch); });
  }
  virtual void computed(int worker, int batch) = 0;
};

/// All workers meet after some steps, at one of them or all together.
class Together : public InOrder {
public:
  using InOrder::InOrder;

private:
  void computed(int worker, int batch) override {
    switch (o.sync.mode) {
    case Sync::Mode::driver:
      return send(ReplicaEvent::push, {worker, 0, worker, batch}, 1, [=, this] { atDriver(batch); });
    case Sync::Mode::local:
      return update(worker, worker, batch, 1, [=, this] {
        if ((batch + 1) % o.sync.every == 0 || batch + 1 == o.steps)
          average(batch);
        else
          step(worker, batch + 1);
      });
    default:
      return meet(batch, ReplicaEvent::allReduce, o.allReduce, [=, this](int each) { finish(each, batch); });
    }
  }

  /// With overlap, workers meet without sending much, and go on while the average is in progress, when the one before has ended; the last one
  /// is awaited.
  void average(int batch) {
    const double seconds = o.average.value_or(o.allReduce);
    auto goOn = [=, this](int each) { step(each, batch + 1); };
    if (!o.sync.overlap)
      return meet(batch, ReplicaEvent::average, seconds, goOn);
    if (++arrived < o.workers)
      return;
    arrived = 0;
    const double now = jobs.now(), begins = std::max(now, averageEnds);
    averageEnds = begins + seconds;
    jobs.after(begins - now, [=, this] {
      for (int worker = 0; worker < o.workers; ++worker)
        exchange(worker, batch, ReplicaEvent::average, seconds, 2 * o.bytes * (o.workers - 1) / o.workers);
      for (int worker = 0; worker < o.workers; ++worker)
        goOn(worker);
    });
    jobs.after(averageEnds - now, [] {});
  }

  void finish(int worker, int batch) {
    update(worker, worker, batch, 1, [=, this] {
      if (o.sync.mode == Sync::Mode::driver)
        goOn(worker, [=, this](int each) { step(each, batch + 1); });
      else
        step(worker, batch + 1);
    });
  }

  void atDriver(int batch) {
    if (++arrived < o.workers)
      return;
    arrived = 0;
    for (int worker = 0; worker < o.workers; ++worker)
      send(ReplicaEvent::pull, {0, worker, worker, batch}, 1, [=, this] { finish(worker, batch); });
  }

  int arrived = 0;        // gradients at the driver, or workers at an average that overlaps with computation
  double averageEnds = 0; // the last of these
};

/// A worker waits for its neighbours of the step alone.
class Gossip : public InOrder {
public:
  explicit Gossip(const ReplicaOptions &options)
      : InOrder(options), done(options.workers), waiting(options.workers) {}

private:
  void computed(int worker, int batch) override {
    update(worker, worker, batch, 1, [=, this] { updated(worker, batch); });
  }

  void updated(int worker, int batch) {
    done[worker] = batch + 1;
    if (batch + 1 == o.steps) // ends with the mean of all
      meet(batch, ReplicaEvent::average, o.allReduce, [](int) {});
    else
      average(worker, batch);
    for (int other : std::exchange(waiting[worker], {}))
      average(other, done[other] - 1);
  }

  void average(int worker, int batch) {
    auto neighbours = neighboursOf(worker, o.workers, batch, o.sync.topology);
    for (int other : neighbours)
      if (done[other] <= batch)
        return waiting[other].push_back(worker);
    double count = (double)neighbours.size(), seconds = count * o.average.value_or(o.messageSeconds());
    exchange(worker, batch, ReplicaEvent::average, seconds, count * o.bytes);
    jobs.after(seconds, [=, this] { step(worker, batch + 1); });
  }

  std::vector<int> done;                 // steps that a worker has computed
  std::vector<std::vector<int>> waiting; // by worker: those that wait for it
};

/// A worker takes the next share when it is free. On a ring, those of even numbers ask one of odd number for an average
/// after each share, which is answered at once.
class AsynchronousGossip : public ReplicaRun {
public:
  using ReplicaRun::ReplicaRun;

  void begin() override {
    for (int worker = 0; worker < o.workers; ++worker)
      step(worker);
  }

private:
  void step(int worker) {
    std::optional<Shares::Share> share = shares.deal();
    if (!share)
      return;
    int batch = share->first;
    compute(worker, batch, share->second,
            [=, this] { update(worker, worker, batch, 1, [=, this] { average(worker, batch); }); });
  }

  void average(int worker, int batch) {
    auto others = neighboursOf(worker, o.workers, batch, Sync::Topology::ring);
    llvm::erase_if(others, [](int other) { return other % 2 == 0; });
    if (worker % 2 != 0 || others.empty())
      return step(worker);
    double seconds = o.average.value_or(2 * o.messageSeconds());
    exchange(worker, batch, ReplicaEvent::average, seconds, o.bytes);
    result.devices[others[batch % others.size()]].bytesSent += o.bytes;
    jobs.after(seconds, [=, this] { step(worker); });
  }

  Shares shares{o};
};

std::unique_ptr<ReplicaRun> makeRun(const ReplicaOptions &options) {
  switch (options.sync.mode) {
  case Sync::Mode::gossip:
    if (options.sync.asynchronous)
      return std::make_unique<AsynchronousGossip>(options);
    return std::make_unique<Gossip>(options);
  case Sync::Mode::server:
    return std::make_unique<Served>(options);
  case Sync::Mode::asyncServer:
    return std::make_unique<ServedAsynchronously>(options);
  default:
    return std::make_unique<Together>(options);
  }
}
} // namespace

llvm::Expected<ReplicaSimulation> pipeline::simulate(const ReplicaOptions &options) {
  if (std::string wrong = options.invalid(); !wrong.empty())
    return llvm::createStringError(wrong);
  ReplicaSimulation result = makeRun(options)->run();
  result.undisturbed = result.seconds;
  if (!options.stragglers.empty() || options.jitter > 0) {
    ReplicaOptions even = options;
    even.stragglers.clear();
    even.jitter = 0;
    result.undisturbed = makeRun(even)->run().seconds;
  }
  return result;
}
