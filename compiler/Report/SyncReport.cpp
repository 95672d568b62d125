#include "compiler/Report/SyncReport.h"

#include "passes/Planning/Cost/Collectives.h"
#include "passes/Planning/Simulator/Replicas.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace divisi;
using namespace divisi::compiler;
using namespace divisi::planning;

/// Numbers of steps from one average to the next that are shown, and whether it overlaps with computation.
static constexpr std::pair<int64_t, bool> averages[] = {{8, false}, {8, true}, {64, false}};

/// The flags of --sync; those that have their default values are left out.
static std::string flagsOf(const dist::Sync &sync) {
  std::string flags = dist::Sync::nameOf(sync.mode).str();
  if (sync.mode == dist::Sync::Mode::server || sync.servers > 0)
    flags += " --servers " + (sync.servers > 0 ? std::to_string(sync.servers) : "colocated");
  if (sync.maxStaleness)
    flags += " --max-staleness " + std::to_string(*sync.maxStaleness);
  if (sync.mode == dist::Sync::Mode::local)
    flags += " --average-every " + std::to_string(sync.every) + (sync.averageState ? " --average-state" : "") + (sync.overlap ? " --overlap-average" : "");
  if (sync.mode == dist::Sync::Mode::gossip)
    flags += sync.asynchronous ? " --asynchronous" : " --topology " + dist::Sync::nameOf(sync.topology).str();
  return flags;
}

/// By tensor: whether what a replica sends to others in a step is made of it. What is exchanged early, such as the sum of the labels that a loss
/// counts, has all replicas meet before the gradients.
static std::vector<bool> leadsToOthers(const Problem &problem, const Prediction &step, int axis) {
  std::vector<bool> sent(problem.ops.size()), leads(problem.tensors.size());
  for (const Prediction::Collective &collective : step.collectives)
    if (collective.operation >= 0 && llvm::is_contained(collective.step.axes, axis))
      sent[collective.operation] = true;
  for (size_t i = problem.ops.size(); i-- > 0;) {
    auto isRead = [&](int tensor) { return leads[tensor]; };
    if (sent[i] || llvm::any_of(problem.ops[i].results, isRead))
      for (int operand : problem.ops[i].operands)
        leads[operand] = true;
  }
  return leads;
}

/// The seconds of a step, of many, on links such that servers are busy for so long in one direction; `together`: workers begin a step together.
static double stepOfServed(const dist::Sync &sync, int64_t replicas, bool together, double computed, double latency, double bytes, double busy) {
  constexpr int64_t mostSimulated = 1024; // messages of a step in one direction
  constexpr int first = 8, last = 24;     // steps
  const double share = bytes / (double)sync.servers, largest = (double)std::max(replicas, sync.servers) * share;
  pipeline::ReplicaOptions options;
  options.sync = sync;
  options.workers = static_cast<int>(replicas);
  options.compute = {computed};
  options.latency = latency;
  options.bytes = bytes;
  options.bandwidth = busy > latency && largest > 0 ? largest / (busy - latency) : INFINITY;
  options.together = together;
  if (replicas * sync.servers > mostSimulated) // what its formulas tend to
    return sync.mode == dist::Sync::Mode::asyncServer ? std::max(computed + 2 * options.messageSeconds(), busy)
                                                      : computed + busy + (together ? busy : options.messageSeconds());
  auto secondsOf = [&](int steps) {
    options.steps = steps;
    return llvm::cantFail(pipeline::simulate(options)).seconds;
  };
  return (secondsOf(last) - secondsOf(first)) / (last - first);
}

SyncPrice compiler::priceSync(const dist::Sync &sync, const Candidate &plan, const Problem &problem, const Cluster &cluster) {
  using Kind = dist::ReshardStep::Kind;
  using Mode = dist::Sync::Mode;
  const Prediction &step = plan.prediction;
  if (sync.mode == Mode::allReduce)
    return {flagsOf(sync), true, step.bytesSent, step.waited, step.seconds};
  const dist::Mesh &mesh = plan.mesh;
  int axis = *mesh.find(dist::replicaAxis);
  const int64_t replicas = mesh.axes[axis].size;
  const double parameters = step.memory.parameters;
  const Link link = linkOf(cluster, mesh, {axis});
  // What replicas exchange in a step of all-reduce, and what is left without it.
  double bytes = 0, waited = 0, early = 0; // early: of these seconds, what replicas wait for before they have gradients
  bool meetEarly = false;
  const std::vector<bool> leads = leadsToOthers(problem, step, axis);
  for (const Prediction::Collective &collective : step.collectives)
    if (llvm::is_contained(collective.step.axes, axis)) {
      bytes += collective.sent * collective.times;
      waited += collective.waited * collective.times;
      if (collective.operation < 0 || llvm::none_of(problem.ops[collective.operation].results, [&](int tensor) { return leads[tensor]; }))
        continue;
      meetEarly = true;
      early += collective.waited * collective.times;
    }
  // What computation waits for if each of these takes other seconds, by its bytes: they begin one after the other, when
  // their operands are there. Computation ends with the last of these.
  auto exposed = [&](llvm::function_ref<double(double)> secondsOf) {
    double now = 0, computed = 0, ready = 0, bytes = 0; // the last two of those that are combined
    auto run = [&] {
      if (bytes > 0)
        now = std::max(now, ready) + secondsOf(bytes);
      ready = bytes = 0;
    };
    for (const Prediction::Collective &collective : step.collectives)
      if (llvm::is_contained(collective.step.axes, axis)) {
        if (collective.leads)
          run();
        computed = std::max(computed, collective.ready);
        ready = std::max(ready, collective.ready);
        bytes += (double)collective.bytes;
      }
    run();
    return now - computed;
  };
  auto priced = [&](double sent, double shown) {
    return SyncPrice{flagsOf(sync), !sync.isApart(), step.bytesSent - bytes + sent, step.waited - waited + shown,
                     step.seconds - waited + shown};
  };
  int64_t stride = 1;
  for (size_t inner = axis + 1; inner < mesh.axes.size(); ++inner)
    stride *= mesh.axes[inner].size;
  // Dedicated servers are devices behind those of the mesh, whose links carry the messages of all workers one after the other, in each direction. A
  // worker's gradients and parameters are not hidden by its own computation. Workers that meet within a step all wait for the last one's parameters;
  // else one computes while others push and pull.
  auto served = [&] {
    std::vector<Transfer> all;
    const int64_t places = mesh.devices() / replicas; // of a replica, and of a server
    for (int64_t device = 0; device < mesh.devices(); ++device)
      for (int64_t server = 0; server < sync.servers; ++server) {
        int64_t place = device / (stride * replicas) * stride + device % stride;
        all.push_back({device, mesh.devices() + server * places + place});
      }
    const double busy = transferSeconds(cluster, all, parameters / (double)sync.servers), computed = step.seconds - waited;
    return priced(std::max(1.0, (double)replicas / (double)sync.servers) * parameters,
                  (sync.mode == Mode::server ? early : 0) - computed +
                      stepOfServed(sync, replicas, meetEarly, computed, transferSeconds(cluster, all, 0), parameters, busy));
  };
  switch (sync.mode) {
  case Mode::driver: { // all others send to the first replica, which sends back
    std::vector<Transfer> in, out;
    for (int64_t other = 1; other < replicas; ++other) {
      in.push_back({other * stride, 0});
      out.push_back({0, other * stride});
    }
    return priced((double)(replicas - 1) * parameters, exposed([&](double bytes) {
                    return transferSeconds(cluster, in, bytes) + transferSeconds(cluster, out, bytes);
                  }));
  }
  case Mode::asyncServer:
    return served();
  case Mode::server: { // everybody sends each other one its share of the gradients, and after the update of the parameters
    if (sync.servers > 0)
      return served();
    std::vector<Transfer> all;
    for (int64_t from = 0; from < replicas; ++from)
      for (int64_t to = 0; to < replicas; ++to)
        if (from != to)
          all.push_back({from * stride, to * stride});
    auto share = [&](double bytes) { return transferSeconds(cluster, all, bytes / (double)replicas); };
    return priced(bytesSent(Kind::allReduce, replicas, parameters), exposed(share) + share(parameters));
  }
  case Mode::local: {
    double averaged = parameters + (sync.averageState ? step.memory.moments : 0), every = (double)sync.every;
    const double hidden = sync.overlap && !cluster.copies ? step.seconds - waited : 0;
    return priced(bytesSent(link, Kind::allReduce, averaged) / every,
                  std::max(0.0, stepSeconds(link, Kind::allReduce, averaged) / every - hidden));
  }
  default: {
    double neighbours = sync.topology == dist::Sync::Topology::ring && replicas > 2 ? 2 : 1;
    return priced(neighbours * parameters, neighbours * permuteSeconds(link, parameters));
  }
  }
}

std::vector<SyncPrice> compiler::priceSync(const Candidate &plan, const Problem &problem, const Cluster &cluster) {
  std::vector<dist::Sync> ways;
  for (auto mode : {dist::Sync::Mode::allReduce, dist::Sync::Mode::driver, dist::Sync::Mode::server})
    ways.emplace_back().mode = mode;
  for (int64_t servers : {1, 2, 4}) {
    dist::Sync &way = ways.emplace_back();
    way.mode = dist::Sync::Mode::server;
    way.servers = servers;
  }
  ways.emplace_back().mode = dist::Sync::Mode::asyncServer;
  ways.back().servers = 1;
  for (auto [every, overlap] : averages) {
    dist::Sync &way = ways.emplace_back();
    way.mode = dist::Sync::Mode::local;
    way.every = every;
    way.overlap = overlap;
  }
  for (auto topology : {dist::Sync::Topology::ring, dist::Sync::Topology::exponential, dist::Sync::Topology::pairs}) {
    dist::Sync &way = ways.emplace_back();
    way.mode = dist::Sync::Mode::gossip;
    way.topology = topology;
  }
  std::vector<SyncPrice> prices;
  for (const dist::Sync &way : ways)
    prices.push_back(priceSync(way, plan, problem, cluster));
  return prices;
}

void compiler::applySync(const dist::Sync &sync, Candidate &plan, const Problem &problem, const Cluster &cluster) {
  SyncPrice price = priceSync(sync, plan, problem, cluster);
  plan.prediction.seconds = price.seconds;
  plan.prediction.waited = price.exposed;
  plan.prediction.bytesSent = price.bytes;
}

llvm::json::Array compiler::describeSync(const std::vector<SyncPrice> &prices) {
  llvm::json::Array list;
  for (const SyncPrice &price : prices)
    list.push_back(llvm::json::Object{{"sync", price.flags},
                                      {"same_numbers", price.sameNumbers},
                                      {"step_ms", price.seconds * 1e3},
                                      {"exposed_ms", price.exposed * 1e3},
                                      {"bytes_sent", price.bytes}});
  return list;
}

void compiler::printSync(llvm::StringRef plan, const std::vector<SyncPrice> &prices, llvm::raw_ostream &out) {
  out << "\nWays to keep the replicas of " << plan << " in step\n";
  out << llvm::formatv("{0,-43} {1,9} {2,9} {3,12}  {4}\n", "--sync", "step ms", "exposed", "bytes sent", "numbers");
  for (const SyncPrice &price : prices) {
    std::string step, exposed, bytes;
    llvm::raw_string_ostream(step) << llvm::format("%.3g", price.seconds * 1e3);
    llvm::raw_string_ostream(exposed) << llvm::format("%.3g", price.exposed * 1e3);
    llvm::raw_string_ostream(bytes) << llvm::format("%.4g", price.bytes);
    out << llvm::formatv("{0,-43} {1,9} {2,9} {3,12}  {4}\n", price.flags, step, exposed, bytes,
                         price.sameNumbers ? "of one device" : "others");
  }
}
