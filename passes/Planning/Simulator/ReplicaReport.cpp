#include "passes/Planning/Simulator/Text.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace divisi::planning;
using namespace divisi::planning::pipeline;
using divisi::dist::Sync;
using llvm::json::Array;
using llvm::json::Object;

namespace {

using Mode = Sync::Mode;

llvm::StringRef kindName(ReplicaEvent::Kind kind) {
  switch (kind) {
  case ReplicaEvent::share:
    return "share";
  case ReplicaEvent::update:
    return "update";
  case ReplicaEvent::push:
    return "push";
  case ReplicaEvent::pull:
    return "pull";
  case ReplicaEvent::allReduce:
    return "all_reduce";
  case ReplicaEvent::average:
    return "average";
  }
  return "";
}

std::string deviceName(const ReplicaOptions &o, int device) {
  return device < o.workers ? "worker " + std::to_string(device) : "server " + std::to_string(device - o.workers);
}

/// "share 2 of batch 7", "update by worker 1's gradients of batch 7".
std::string textOf(const ReplicaOptions &o, const ReplicaEvent &event) {
  std::string batch = "batch " + std::to_string(event.batch), worker = "worker " + std::to_string(event.worker);
  switch (event.kind) {
  case ReplicaEvent::share:
    return "share " + std::to_string(event.index) + " of " + batch;
  case ReplicaEvent::update:
    if (o.sync.mode == Mode::asyncServer)
      return "update by share " + std::to_string(event.index) + " of " + batch + ", of " + worker;
    return "update after " + batch;
  case ReplicaEvent::push:
    return "push of " + batch + " to " + deviceName(o, event.peer);
  case ReplicaEvent::pull:
    return "pull of " + worker;
  default:
    return kindName(event.kind).str() + " after " + batch;
  }
}

std::string plural(int64_t count, const std::string &what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : what == "batch" ? "es" : "s");
}

/// "local of 4 replicas", "async-server of 4 workers and 1 server".
std::string summary(const ReplicaOptions &o) {
  std::string text = Sync::nameOf(o.sync.mode).str() + " of " + plural(o.workers, "worker");
  if (o.dedicatedServers() > 0)
    text += " and " + plural(o.dedicatedServers(), "server");
  if (o.isColocated())
    text += " with colocated servers";
  if (o.sync.mode == Mode::asyncServer)
    text += ", staleness " +
            (o.sync.maxStaleness ? "up to " + plural(*o.sync.maxStaleness, "batch") : std::string("not bounded"));
  if (o.sync.mode == Mode::local)
    text += ", averaged every " + plural(o.sync.every, "step") + (o.sync.overlap ? " during the next ones" : "");
  if (o.sync.mode == Mode::gossip)
    text += o.sync.asynchronous ? ", asynchronous" : ", " + Sync::nameOf(o.sync.topology).str();
  return text;
}

/// "worker 3 slowed by a factor of 3, worker 1 by 1 to 2.5".
std::string slowed(const ReplicaOptions &o) {
  std::vector<std::string> parts;
  for (auto [worker, factors] : o.stragglers)
    parts.push_back("worker " + std::to_string(worker) + (parts.empty() ? " slowed by a factor of " : " by ") +
                    (factors.least < factors.most ? numberText(factors.least) + " to " : std::string()) +
                    numberText(factors.most));
  if (o.jitter > 0)
    parts.push_back("random delays of " + percentText(o.jitter) + " on average");
  return llvm::join(parts, ", ");
}

/// The share of time in which these devices compute or update.
double busyShare(const ReplicaSimulation &simulation, size_t from, size_t to) {
  double busy = 0;
  for (size_t device = from; device < to; ++device)
    busy += simulation.devices[device].busy;
  return simulation.seconds > 0 ? busy / simulation.seconds / (double)(to - from) : 0;
}

std::vector<Report::Figure> figuresOf(const ReplicaSimulation &simulation) {
  const ReplicaOptions &o = simulation.options;
  std::vector<Report::Figure> figures = {{"time in all", secondsText(simulation.seconds),
                                          "for " + plural(o.steps, "batch") + " of " + plural(o.workers, "share")},
                                         {"throughput", numberText(simulation.batchesPerSecond()) + "/s",
                                          "batches; " + secondsText(simulation.seconds / o.steps) + " for each"}};
  if (std::string who = slowed(o); !who.empty())
    figures.push_back({"of undisturbed", percentText(simulation.relativeThroughput()),
                       who + "; without: " + secondsText(simulation.undisturbed / o.steps) + " for each batch"});
  figures.push_back({"workers busy", percentText(busyShare(simulation, 0, o.workers)), "share of the workers' time"});
  if (o.dedicatedServers() > 0)
    figures.push_back({"servers busy", percentText(busyShare(simulation, o.workers, o.devices())), "with updates"});
  if (!simulation.updates.empty())
    figures.push_back(
        {"staleness", numberText(simulation.meanStaleness()),
         "updates between pull and update, on average; at most " + std::to_string(simulation.largestStaleness())});
  return figures;
}

std::vector<std::vector<std::string>> tableOf(const ReplicaSimulation &simulation) {
  std::vector<std::vector<std::string>> rows = {{"device", "shares", "updates", "busy", "idle", "sent"}};
  for (auto [d, device] : llvm::enumerate(simulation.devices))
    rows.push_back({deviceName(simulation.options, d), std::to_string(device.shares), std::to_string(device.updates),
                    secondsText(device.busy), percentText(simulation.idleShare(d)), bytesText(device.bytesSent)});
  leaveOutZeros(rows, 1);
  return rows;
}

std::vector<Report::Legend> legendOf(const ReplicaSimulation &simulation) {
  static constexpr std::pair<ReplicaEvent::Kind, llvm::StringLiteral> texts[] = {
      {ReplicaEvent::share, "share of a batch, forward and backward"},
      {ReplicaEvent::update, "update"},
      {ReplicaEvent::push, "push of gradients"},
      {ReplicaEvent::pull, "pull"},
      {ReplicaEvent::allReduce, "all_reduce"},
      {ReplicaEvent::average, "average of parameters"}};
  std::vector<Report::Legend> entries;
  for (const auto &[kind, text] : texts)
    if (llvm::any_of(simulation.events, [&, kind = kind](const ReplicaEvent &event) {
          return event.kind == kind && event.end > event.start;
        }))
      entries.push_back({kindName(kind), text});
  entries.push_back({"idle", "idle"});
  return entries;
}
} // namespace

Report pipeline::report(const ReplicaSimulation &simulation, const std::string &title) {
  const ReplicaOptions &o = simulation.options;
  std::string what = summary(o), who = slowed(o);
  Report report{title.empty() ? "A simulation of replicas" : title,
                what + (who.empty() ? "" : "; " + who) + ". Numbers in the boxes are batches.",
                "sent: bytes of parameters and gradients.",
                simulation.seconds,
                figuresOf(simulation),
                tableOf(simulation),
                legendOf(simulation)};
  for (auto [d, device] : llvm::enumerate(simulation.devices))
    report.devices.push_back({deviceName(o, d), device.busy});
  for (const ReplicaEvent &event : simulation.events)
    report.boxes.push_back({event.device, event.kind == ReplicaEvent::share || event.kind == ReplicaEvent::update,
                            event.start, event.end, kindName(event.kind),
                            event.kind == ReplicaEvent::share ? event.batch : -1});
  report.describe = [&simulation](size_t i) { return textOf(simulation.options, simulation.events[i]); };
  report.details = [&simulation](size_t i) {
    const ReplicaEvent &event = simulation.events[i];
    Object details{{"batch", event.batch}};
    for (auto [key, value] : {std::pair("worker", event.worker), {"share", event.index}, {"to", event.peer}})
      if (value >= 0)
        details[key] = value;
    return details;
  };
  return report;
}

Object pipeline::toJson(const ReplicaSimulation &simulation) {
  const ReplicaOptions &o = simulation.options;
  Array devices;
  for (auto [d, device] : llvm::enumerate(simulation.devices))
    devices.push_back(Object{{"name", deviceName(o, d)},
                             {"shares", device.shares},
                             {"updates", device.updates},
                             {"busy_ms", device.busy * 1e3},
                             {"idle", simulation.idleShare(d)},
                             {"bytes_sent", device.bytesSent}});
  Object result{{"sync", Sync::nameOf(o.sync.mode)},
                {"workers", o.workers},
                {"steps", o.steps},
                {"time_ms", simulation.seconds * 1e3},
                {"batch_ms", simulation.seconds * 1e3 / o.steps},
                {"batches_per_s", simulation.batchesPerSecond()},
                {"undisturbed_ms", simulation.undisturbed * 1e3},
                {"relative_throughput", simulation.relativeThroughput()},
                {"devices", std::move(devices)}};
  if (o.isColocated())
    result["servers"] = "colocated";
  else if (o.dedicatedServers() > 0)
    result["servers"] = o.dedicatedServers();
  if (o.sync.mode == Mode::local)
    result["average_every"] = o.sync.every, result["overlap_average"] = o.sync.overlap;
  if (o.sync.mode == Mode::gossip) {
    result["topology"] = Sync::nameOf(o.sync.topology);
    result["asynchronous"] = o.sync.asynchronous;
  }
  if (o.sync.mode == Mode::asyncServer) {
    result["max_staleness"] = o.sync.maxStaleness ? llvm::json::Value(*o.sync.maxStaleness) : llvm::json::Value("none");
    result["staleness"] = Object{{"mean", simulation.meanStaleness()}, {"max", simulation.largestStaleness()}};
  }
  return result;
}
