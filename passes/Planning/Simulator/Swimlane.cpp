#include "passes/Planning/Simulator/Text.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"

#include <cmath>

using namespace divisi::planning;
using namespace divisi::planning::pipeline;

namespace {

constexpr char style[] = R"(<style>
.swimlane { --ink: #1c1d21; --soft: #63656d; --line: #d4d4cc; --idle: #ecece6; --on: #fff; --forward: #3f6db8;
  --backward: #23805f; --weights: #7a5fb3; --update: #9a6a12; --communication: #d9622b; --memory: #9aa0ab;
  color-scheme: light dark; font: 12px system-ui, sans-serif; font-variant-numeric: tabular-nums; }
@media (prefers-color-scheme: dark) { .swimlane { --ink: #e6e6e2; --soft: #9c9fa8; --line: #3d424c; --idle: #262a31;
  --on: #14161a; --forward: #7ea6ea; --backward: #5dc09a; --weights: #b19be6; --update: #dfb055; --communication: #f08a54;
  --memory: #7b828e; } }
.swimlane text { fill: var(--ink); } .swimlane .soft { fill: var(--soft); font-size: 11px; }
.swimlane .number { fill: var(--on); text-anchor: middle; font-size: 11px; } .swimlane .later .number { fill: var(--ink); }
.swimlane .idle { fill: var(--idle); } .swimlane .forward { fill: var(--forward); }
.swimlane .backward, .swimlane .input { fill: var(--backward); } .swimlane .weight { fill: var(--weights); }
.swimlane .update { fill: var(--update); } .swimlane .transfer, .swimlane .all { fill: var(--communication); }
.swimlane .all { fill-opacity: .6; } .swimlane .later rect { fill-opacity: .42; }
.swimlane .memory { fill: var(--memory); fill-opacity: .5; stroke: var(--memory); }
.swimlane line { stroke: var(--line); }
</style>
)";

/// The class of an event: the first word of its name.
llvm::StringRef classOf(const Event &event) {
  switch (event.kind) {
  case Event::compute:
    return nameOf(event.task.kind).split(' ').first;
  case Event::transfer:
    return "transfer";
  case Event::allReduce:
    return "all";
  }
  return "";
}

class Swimlane {
public:
  Swimlane(const Simulation &simulation, const Names &names, llvm::raw_ostream &out)
      : simulation(simulation), names(names), out(out), lanes(simulation.devices.size()) {
    double shortest = simulation.seconds;
    for (const Event &event : simulation.events) {
      double seconds = event.end - event.start;
      lanes[event.device].push_back(&event);
      communicates = communicates || (event.kind != Event::compute && seconds > 0);
      if (event.kind == Event::compute && event.task.kind != Task::update && seconds > 0)
        shortest = std::min(shortest, seconds);
    }
    for (const Simulation::Device &device : simulation.devices)
      most = std::max(most, device.peakBytes);
    bool runs = simulation.seconds > 0;
    width = runs ? std::clamp(simulation.seconds / shortest * box, narrowest, widest) : narrowest;
    scale = runs ? width / simulation.seconds : 0;
    row = lane + (communicates ? communication + 2 : 0) + (most > 0 ? memory + 3 : 0);
  }

  void print() {
    double bottom = top + lanes.size() * (row + gap);
    out << "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"swimlane\" role=\"img\" width=\""
        << number(left + width + right) << "\" height=\"" << number(bottom + 22) << "\">\n<title>"
        << escaped(names.title) << "</title>\n"
        << style;
    printAxis(bottom);
    for (size_t device = 0; device < lanes.size(); ++device)
      printDevice(device, top + device * (row + gap));
    out << "</svg>\n";
  }

private:
  static constexpr double left = 116, right = 28, top = 8, lane = 30, communication = 8, memory = 18, gap = 11;
  static constexpr double box = 18, narrowest = 1148, widest = 12000; // pixels
  static constexpr size_t mostHints = 20000;                          // with more events, boxes have no texts on hover

  /// A coordinate: two decimals at most.
  static std::string number(double value) {
    std::string text;
    llvm::raw_string_ostream(text) << llvm::format("%.2f", value);
    llvm::StringRef trimmed = llvm::StringRef(text).rtrim('0').rtrim('.');
    return trimmed.str();
  }

  void rect(llvm::StringRef kind, double x, double y, double w, double h, llvm::StringRef hint = "") {
    out << "<rect class=\"" << kind << "\" x=\"" << number(x) << "\" y=\"" << number(y) << "\" width=\"" << number(w)
        << "\" height=\"" << number(h) << "\" rx=\"" << (w > 6 ? "2" : "0") << "\"";
    if (hint.empty())
      out << "/>\n";
    else
      out << "><title>" << escaped(hint) << "</title></rect>\n";
  }

  /// Ticks at 1, 2 or 5 times a power of ten, about one in 90 pixels.
  void printAxis(double bottom) {
    if (!(simulation.seconds > 0))
      return;
    double least = simulation.seconds * 90 / width, step = std::pow(10, std::floor(std::log10(least)));
    for (double factor : {2.0, 2.5, 2.0})
      if (step < least)
        step *= factor;
    for (int tick = 0; tick * step <= simulation.seconds * (1 + 1e-9); ++tick) {
      std::string x = number(left + tick * step * scale);
      out << "<line x1=\"" << x << "\" x2=\"" << x << "\" y1=\"0\" y2=\"" << number(bottom) << "\"/>"
          << "<text class=\"soft\" text-anchor=\"middle\" x=\"" << x << "\" y=\"" << number(bottom + 14) << "\">"
          << secondsText(tick * step) << "</text>\n";
    }
  }

  void printDevice(size_t number, double y) {
    const Simulation::Device &device = simulation.devices[number];
    std::string name = names.device(number);
    if (name.size() > 17)
      name.replace(15, std::string::npos, "...");
    out << "<text x=\"4\" y=\"" << y + 13 << "\">" << escaped(name) << "</text><text class=\"soft\" x=\"4\" y=\""
        << y + 27 << "\">" << percentText(simulation.seconds > 0 ? device.busy / simulation.seconds : 0)
        << " busy</text>\n";
    rect("idle", left, y, width, lane);
    for (const Event *event : lanes[number])
      printEvent(*event, event->kind == Event::compute ? y : y + lane + 2);
    if (most > 0)
      printMemory(device, y + row);
  }

  void printEvent(const Event &event, double y) {
    double seconds = event.end - event.start, w = seconds * scale, x = left + event.start * scale;
    if (seconds <= 0)
      return;
    std::string hint;
    if (simulation.events.size() <= mostHints)
      hint = describe(event, simulation.edges) + ", " + secondsText(event.start) + " to " + secondsText(event.end);
    if (event.kind != Event::compute)
      return rect(classOf(event), x, y, std::max(w, .75), communication, hint);
    bool later = event.task.chunk > 0;
    if (later)
      out << "<g class=\"later\">";
    rect(classOf(event), x + .5, y, std::max(w - 1, .5), lane, hint);
    std::string label = std::to_string(event.task.microbatch);
    if (event.task.kind != Task::update && w >= 7.0 * label.size() + 4)
      out << "<text class=\"number\" x=\"" << number(x + w / 2) << "\" y=\"" << number(y + lane / 2 + 4) << "\">"
          << label << "</text>\n";
    if (later)
      out << "</g>\n";
  }

  /// All devices have one scale: the height is the largest memory of any.
  void printMemory(const Simulation::Device &device, double bottom) {
    auto height = [&](double bytes) { return number(bottom - bytes / most * memory); };
    out << "<path class=\"memory\" d=\"M" << number(left) << " " << number(bottom);
    for (const Simulation::Sample &sample : device.memory)
      out << "H" << number(left + sample.time * scale) << "V" << height(sample.bytes);
    out << "H" << number(left + width) << "V" << number(bottom) << "Z\"><title>memory: at most "
        << bytesText(device.peakBytes) << "</title></path>\n";
  }

  const Simulation &simulation;
  const Names &names;
  llvm::raw_ostream &out;
  std::vector<std::vector<const Event *>> lanes; // by device
  bool communicates = false;
  double most = 0; // bytes
  double width, scale, row;
};
} // namespace

void pipeline::printSwimlane(const Simulation &simulation, const Names &names, llvm::raw_ostream &out) {
  Swimlane(simulation, names, out).print();
}
