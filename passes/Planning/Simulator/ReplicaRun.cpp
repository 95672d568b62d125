#include "passes/Planning/Simulator/ReplicaRun.h"

#include <cmath>

using namespace divisi::planning::pipeline;

std::optional<Shares::Share> Shares::deal() {
  const auto &bound = o.sync.maxStaleness;
  if (next.first == o.steps || (bound && !open.empty() && next.first - open.begin()->first > *bound))
    return std::nullopt;
  Share dealt = next;
  open.insert(dealt);
  if (++next.second == o.workers)
    next = {next.first + 1, 0};
  return dealt;
}

ReplicaRun::ReplicaRun(const ReplicaOptions &options) : o(options), jobs((size_t)options.devices() * units) {
  result.options = o;
  result.devices.resize(o.devices());
  for (int worker = 0; worker < o.workers; ++worker) {
    std::seed_seq seed{(uint32_t)o.seed, (uint32_t)(o.seed >> 32), (uint32_t)worker};
    random.emplace_back(seed);
  }
}

ReplicaSimulation ReplicaRun::run() {
  begin();
  jobs.run();
  result.seconds = jobs.now();
  llvm::stable_sort(result.events, [](const ReplicaEvent &a, const ReplicaEvent &b) {
    return std::pair(a.start, a.device) < std::pair(b.start, b.device);
  });
  return std::move(result);
}

double ReplicaRun::draw(int worker) { return std::ldexp((double)(random[worker]() >> 11), -53); }

void ReplicaRun::compute(int worker, int batch, int index, Done done) {
  double seconds = o.compute[o.compute.size() > 1 ? worker : 0];
  if (auto slowed = o.stragglers.find(worker); slowed != o.stragglers.end()) {
    auto [least, most] = slowed->second;
    seconds *= least < most ? least + (most - least) * draw(worker) : most;
  }
  // By the inverse of the distribution function, and not by the library, so that it is the same everywhere.
  if (o.jitter > 0)
    seconds *= 1 - o.jitter * std::log1p(-draw(worker));
  jobs.occupy({resource(worker, processor)}, seconds, [=, this, done = std::move(done)](double start) {
    result.events.push_back({ReplicaEvent::share, worker, start, jobs.now(), batch, worker, index});
    result.devices[worker].busy += seconds;
    ++result.devices[worker].shares;
    done();
  });
}

void ReplicaRun::update(int device, int worker, int batch, double part, Done done, int index) {
  double seconds = o.update * part;
  jobs.occupy({resource(device, processor)}, seconds, [=, this, done = std::move(done)](double start) {
    result.events.push_back({ReplicaEvent::update, device, start, jobs.now(), batch, worker, index});
    result.devices[device].busy += seconds;
    ++result.devices[device].updates;
    done();
  });
}

void ReplicaRun::send(ReplicaEvent::Kind kind, const Message &message, double part, Done done) {
  if (message.from == message.to)
    return jobs.after(0, std::move(done));
  double bytes = o.bytes * part, seconds = bytes / o.bandwidth, late = o.overlap ? o.latency : 0;
  Jobs::Resources ends = {resource(message.from, outgoing), resource(message.to, incoming)};
  jobs.occupy(ends, seconds + o.latency - late, [=, this, done = std::move(done)](double start) {
    result.devices[message.from].bytesSent += bytes;
    jobs.after(late, [=, this] {
      result.events.push_back({kind, message.from, start, jobs.now(), message.batch, message.worker, -1, message.to});
      done();
    });
  });
}

void ReplicaRun::exchange(int worker, int batch, ReplicaEvent::Kind kind, double seconds, double bytes) {
  result.events.push_back({kind, worker, jobs.now(), jobs.now() + seconds, batch, worker});
  result.devices[worker].bytesSent += bytes;
}

void ReplicaRun::meet(int batch, ReplicaEvent::Kind kind, double seconds, const std::function<void(int worker)> &then) {
  if (++come < o.workers)
    return;
  come = 0;
  for (int worker = 0; worker < o.workers; ++worker)
    exchange(worker, batch, kind, seconds, 2 * o.bytes * (o.workers - 1) / o.workers);
  jobs.after(seconds, [=, this] {
    for (int worker = 0; worker < o.workers; ++worker)
      then(worker);
  });
}

void ReplicaRun::goOn(int worker, const std::function<void(int worker)> &then) {
  if (!o.together)
    return then(worker);
  if (++come < o.workers)
    return;
  come = 0;
  for (int each = 0; each < o.workers; ++each)
    then(each);
}
