#include "passes/Planning/Simulator/Text.h"
#include "llvm/ADT/STLExtras.h"

using namespace divisi::planning;
using namespace divisi::planning::pipeline;
using llvm::json::Array;
using llvm::json::Object;

void pipeline::printTrace(const Report &report, llvm::raw_ostream &out) {
  Array events;
  auto label = [&](const char *what, size_t process, int thread, std::string name) {
    events.push_back(Object{
        {"ph", "M"}, {"name", what}, {"pid", process}, {"tid", thread}, {"args", Object{{"name", std::move(name)}}}});
  };
  for (auto [d, device] : llvm::enumerate(report.devices)) {
    label("process_name", d, 0, validUtf8(device.name));
    label("thread_name", d, 0, "computation");
    label("thread_name", d, 1, "communication");
  }
  for (auto [number, box] : llvm::enumerate(report.boxes))
    events.push_back(Object{{"ph", "X"},
                            {"name", report.describe(number)},
                            {"cat", box.kind},
                            {"pid", box.device},
                            {"tid", box.computes ? 0 : 1},
                            {"ts", box.start * 1e6},
                            {"dur", (box.end - box.start) * 1e6},
                            {"args", report.details(number)}});
  for (auto [d, device] : llvm::enumerate(report.devices))
    for (const Simulation::Sample &sample : device.memory)
      events.push_back(Object{{"ph", "C"},
                              {"name", "memory"},
                              {"pid", d},
                              {"ts", sample.time * 1e6},
                              {"args", Object{{"bytes", sample.bytes}, {"microbatches", sample.microbatches}}}});
  out << llvm::json::Value(Object{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}) << "\n";
}
