#include "passes/Planning/Simulator/Text.h"
#include "llvm/ADT/STLExtras.h"

using namespace divisi::planning;
using namespace divisi::planning::pipeline;
using llvm::json::Array;
using llvm::json::Object;

namespace {

/// "forward of microbatch 3", "activation 0 -> 1, microbatch 3", "all_reduce of gradients".
std::string textOf(const Event &event, const std::vector<Edge> &edges) {
  if (event.kind == Event::compute)
    return describe(event.task);
  if (event.kind == Event::allReduce)
    return "all_reduce of gradients" + (event.task.chunk ? " (chunk " + std::to_string(event.task.chunk) + ")" : "");
  const Message &m = event.message;
  int from = edges[m.edge].producer, to = edges[m.edge].consumer;
  if (m.gradient)
    std::swap(from, to);
  return (m.gradient ? "gradient " : "activation ") + std::to_string(from) + " -> " + std::to_string(to) +
         ", microbatch " + std::to_string(m.microbatch);
}

std::vector<Report::Figure> keyFigures(const Simulation &simulation) {
  const ScheduleOptions &o = simulation.options;
  double idle = 0, communicating = 0, sent = 0, peak = 0;
  int live = 0;
  for (const Simulation::Device &device : simulation.devices) {
    idle += simulation.seconds - device.busy;
    communicating += device.communicating;
    sent += device.bytesSent;
    peak = std::max(peak, device.peakBytes);
    live = std::max(live, device.peakMicrobatches);
  }
  std::vector<Report::Figure> figures;
  std::string count = "for " + std::to_string(o.microbatches) + (o.unsplit() ? " minibatch" : " microbatch") +
                      (o.microbatches == 1 ? "" : "es");
  if (o.asynchronous())
    figures.push_back({o.doubleBuffered() ? "time per batch" : "time per minibatch",
                       secondsText(simulation.steadySeconds), "once the pipeline is full"});
  figures.push_back({o.asynchronous() ? "time in all" : "step time", secondsText(simulation.seconds), count});
  figures.push_back({"utilization", percentText(simulation.utilization()), "share of device time"});
  figures.push_back({"bubble", percentText(simulation.bubble()),
                     "idle over busy time; " + secondsText(idle / o.devices) + " idle on each"});
  figures.push_back({"live activations", std::to_string(live),
                     o.chunks > 1 ? "microbatch chunks on the fullest device" : "microbatches on the fullest device"});
  if (peak > 0)
    figures.push_back({"memory", bytesText(peak), "at most, on one device"});
  if (communicating > 0 || sent > 0)
    figures.push_back({"communication", secondsText(communicating),
                       (sent > 0 ? bytesText(sent) + " sent, " : "") + "all devices together"});
  return figures;
}

std::vector<std::vector<std::string>> deviceTable(const Simulation &simulation, const Names &names) {
  const ScheduleOptions &o = simulation.options;
  std::vector<std::vector<std::string>> rows = {{"device", o.chunks > 1 ? "stages" : "stage", "busy", "utilization",
                                                 "communicating", "live", "versions", "peak memory", "sent"}};
  for (auto [d, device] : llvm::enumerate(simulation.devices)) {
    std::string stages, versions;
    for (int chunk = 0; chunk < o.chunks; ++chunk) {
      stages += (chunk ? ", " : "") + std::to_string(o.stageOf(d, chunk));
      versions += (chunk ? ", " : "") + std::to_string(simulation.weightVersions[o.stageOf(d, chunk)]);
    }
    rows.push_back({names.device(d), stages, secondsText(device.busy),
                    percentText(simulation.seconds > 0 ? device.busy / simulation.seconds : 0),
                    secondsText(device.communicating), std::to_string(device.peakMicrobatches), versions,
                    bytesText(device.peakBytes), bytesText(device.bytesSent)});
  }
  if (!o.asynchronous())
    for (size_t column = llvm::find(rows[0], "versions") - rows[0].begin(); auto &row : rows)
      row.erase(row.begin() + column);
  leaveOutZeros(rows, 2);
  return rows;
}

std::vector<Report::Legend> legend(const Simulation &simulation) {
  bool split = false, whole = false, update = false, transfer = false, reduce = false, later = false, memory = false;
  for (const Event &event : simulation.events) {
    if (event.end <= event.start)
      continue;
    bool compute = event.kind == Event::compute;
    split = split || (compute && event.task.kind == Task::inputGradient);
    whole = whole || (compute && event.task.kind == Task::backward);
    update = update || (compute && event.task.kind == Task::update);
    later = later || (compute && event.task.chunk > 0);
    transfer = transfer || event.kind == Event::transfer;
    reduce = reduce || event.kind == Event::allReduce;
  }
  for (const Simulation::Device &device : simulation.devices)
    memory = memory || device.peakBytes > 0;
  std::vector<Report::Legend> entries = {{"forward", "forward"}};
  if (whole)
    entries.push_back({"backward", "backward"});
  if (split) {
    entries.push_back({"input", "input gradient"});
    entries.push_back({"weight", "weight gradient"});
  }
  if (update)
    entries.push_back({"update", "update"});
  if (transfer)
    entries.push_back({"transfer", "sending"});
  if (reduce)
    entries.push_back({"all_reduce", "all_reduce"});
  entries.push_back({"idle", "idle"});
  if (memory)
    entries.push_back({"memory", "memory (one scale for all devices)"});
  if (later)
    entries.push_back({"forward", "pale: chunks after the first", true});
  return entries;
}

std::string subtitle(const ScheduleOptions &o) {
  std::string text = "Schedule " + nameOf(o.kind).str() + ", " + std::to_string(o.stages()) + " stages on " +
                     std::to_string(o.devices) + " devices";
  if (o.doubleBuffered())
    text += ", an update after every " + std::to_string(o.batch) + " microbatches, two versions of the weights";
  else if (o.unsplit())
    text += ", an update after every minibatch, weights: " + nameOf(o.staleness).str();
  return text + ". Numbers in the boxes are " + (o.unsplit() ? "minibatches." : "microbatches.");
}
} // namespace

std::string Names::device(size_t number) const {
  return number < devices.size() ? devices[number] : "device " + std::to_string(number);
}

Report pipeline::report(const Simulation &simulation, const Names &names) {
  Report report{names.title,
                subtitle(simulation.options),
                "live: microbatches whose activations a device keeps at the worst moment.",
                simulation.seconds,
                keyFigures(simulation),
                deviceTable(simulation, names),
                legend(simulation)};
  if (simulation.options.asynchronous())
    report.note += " versions: of the weights, kept at the worst moment.";
  for (auto [d, device] : llvm::enumerate(simulation.devices))
    report.devices.push_back({names.device(d), device.busy, device.peakBytes, device.memory});
  for (const Event &event : simulation.events) {
    bool compute = event.kind == Event::compute;
    report.boxes.push_back({event.device, compute, event.start, event.end,
                            compute                         ? nameOf(event.task.kind)
                            : event.kind == Event::transfer ? "transfer"
                                                            : "all_reduce",
                            compute && event.task.kind != Task::update ? event.task.microbatch : -1,
                            compute && event.task.chunk > 0});
  }
  report.describe = [&simulation](size_t i) { return textOf(simulation.events[i], simulation.edges); };
  report.details = [&simulation](size_t i) {
    const Event &event = simulation.events[i];
    if (event.kind == Event::transfer)
      return Object{{"microbatch", event.message.microbatch}, {"to", event.peer}, {"bytes", event.bytes}};
    return Object{{"microbatch", event.task.microbatch}, {"chunk", event.task.chunk}};
  };
  return report;
}

Object pipeline::toJson(const Simulation &simulation, const Names &names) {
  const ScheduleOptions &o = simulation.options;
  Array devices, links;
  for (auto [d, device] : llvm::enumerate(simulation.devices)) {
    Array stages, versions, held;
    for (int chunk = 0; chunk < o.chunks; ++chunk) {
      int stage = o.stageOf(d, chunk);
      stages.push_back(stage);
      versions.push_back(simulation.weightVersions[stage]);
      held.push_back(simulation.peakMicrobatches[stage]);
    }
    devices.push_back(Object{{"name", validUtf8(names.device(d))},
                             {"stages", std::move(stages)},
                             {"busy_ms", device.busy * 1e3},
                             {"communicating_ms", device.communicating * 1e3},
                             {"peak_microbatches", device.peakMicrobatches},
                             {"peak_microbatches_by_stage", std::move(held)},
                             {"weight_versions", std::move(versions)},
                             {"peak_bytes", device.peakBytes},
                             {"bytes_sent", device.bytesSent}});
  }
  for (const auto &[pair, traffic] : simulation.links)
    links.push_back(
        Object{{"from", pair.first}, {"to", pair.second}, {"messages", traffic.messages}, {"bytes", traffic.bytes}});
  Object result{{"schedule", nameOf(o.kind)},
                {"stages", o.stages()},
                {"microbatches", o.microbatches},
                {"chunks", o.chunks},
                {"step_ms", simulation.seconds * 1e3},
                {"utilization", simulation.utilization()},
                {"bubble", simulation.bubble()},
                {"devices", std::move(devices)},
                {"links", std::move(links)}};
  if (o.asynchronous()) {
    if (o.unsplit())
      result["staleness"] = nameOf(o.staleness);
    result[o.doubleBuffered() ? "batch_ms" : "minibatch_ms"] = simulation.steadySeconds * 1e3;
  }
  return result;
}
