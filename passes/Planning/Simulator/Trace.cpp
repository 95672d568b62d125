#include "passes/Planning/Simulator/Text.h"
#include "llvm/ADT/STLExtras.h"

using namespace divisi::planning;
using namespace divisi::planning::pipeline;
using llvm::json::Array;
using llvm::json::Object;

/// JSON requires UTF-8; a name may be any bytes.
static std::string valid(llvm::StringRef text) {
  return llvm::json::isUTF8(text) ? text.str() : llvm::json::fixUTF8(text);
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
    devices.push_back(Object{{"name", valid(names.device(d))},
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

void pipeline::printTrace(const Simulation &simulation, const Names &names, llvm::raw_ostream &out) {
  Array events;
  auto label = [&](const char *what, size_t process, int thread, std::string name) {
    events.push_back(Object{
        {"ph", "M"}, {"name", what}, {"pid", process}, {"tid", thread}, {"args", Object{{"name", std::move(name)}}}});
  };
  for (size_t d = 0; d < simulation.devices.size(); ++d) {
    label("process_name", d, 0, valid(names.device(d)));
    label("thread_name", d, 0, "computation");
    label("thread_name", d, 1, "communication");
  }
  for (const Event &event : simulation.events) {
    bool compute = event.kind == Event::compute;
    Object args;
    if (event.kind == Event::transfer)
      args = Object{{"microbatch", event.message.microbatch}, {"to", event.peer}, {"bytes", event.bytes}};
    else
      args = Object{{"microbatch", event.task.microbatch}, {"chunk", event.task.chunk}};
    events.push_back(Object{{"ph", "X"},
                            {"name", describe(event, simulation.edges)},
                            {"cat", compute                         ? nameOf(event.task.kind)
                                    : event.kind == Event::transfer ? llvm::StringRef("transfer")
                                                                    : llvm::StringRef("all_reduce")},
                            {"pid", event.device},
                            {"tid", compute ? 0 : 1},
                            {"ts", event.start * 1e6},
                            {"dur", (event.end - event.start) * 1e6},
                            {"args", std::move(args)}});
  }
  for (auto [d, device] : llvm::enumerate(simulation.devices))
    for (const Simulation::Sample &sample : device.memory)
      events.push_back(Object{{"ph", "C"},
                              {"name", "memory"},
                              {"pid", d},
                              {"ts", sample.time * 1e6},
                              {"args", Object{{"bytes", sample.bytes}, {"microbatches", sample.microbatches}}}});
  out << llvm::json::Value(Object{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}) << "\n";
}
