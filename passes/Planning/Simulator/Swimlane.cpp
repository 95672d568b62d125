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
.swimlane .idle { fill: var(--idle); } .swimlane .forward, .swimlane .share { fill: var(--forward); }
.swimlane .backward, .swimlane .input { fill: var(--backward); } .swimlane .weight { fill: var(--weights); }
.swimlane .update { fill: var(--update); } .swimlane .transfer, .swimlane .push, .swimlane .pull, .swimlane .average,
.swimlane .all_reduce { fill: var(--communication); } .swimlane .all_reduce, .swimlane .pull { fill-opacity: .6; } .swimlane .later rect { fill-opacity: .42; }
.swimlane .memory { fill: var(--memory); fill-opacity: .5; stroke: var(--memory); }
.swimlane line { stroke: var(--line); }
</style>
)";

class Swimlane {
public:
  Swimlane(const Report &report, llvm::raw_ostream &out) : report(report), out(out), lanes(report.devices.size()) {
    double shortest = report.seconds;
    for (auto [number, box] : llvm::enumerate(report.boxes)) {
      double seconds = box.end - box.start;
      lanes[box.device].push_back(number);
      communicates = communicates || (!box.computes && seconds > 0);
      if (box.computes && box.number >= 0 && seconds > 0)
        shortest = std::min(shortest, seconds);
    }
    for (const Report::Device &device : report.devices)
      most = std::max(most, device.peakBytes);
    bool runs = report.seconds > 0;
    width = runs ? std::clamp(report.seconds / shortest * box, narrowest, widest) : narrowest;
    scale = runs ? width / report.seconds : 0;
    row = lane + (communicates ? communication + 2 : 0) + (most > 0 ? memory + 3 : 0);
  }

  void print() {
    double bottom = top + lanes.size() * (row + gap);
    out << "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"swimlane\" role=\"img\" width=\""
        << number(left + width + right) << "\" height=\"" << number(bottom + 22) << "\">\n<title>"
        << escaped(report.title) << "</title>\n"
        << style;
    printAxis(bottom);
    for (size_t device = 0; device < lanes.size(); ++device)
      printDevice(device, top + device * (row + gap));
    out << "</svg>\n";
  }

private:
  static constexpr double left = 116, right = 28, top = 8, lane = 30, communication = 8, memory = 18, gap = 11;
  static constexpr double box = 18, narrowest = 1148, widest = 12000; // pixels
  static constexpr size_t mostHints = 20000;                          // with more boxes, they have no texts on hover

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
    if (!(report.seconds > 0))
      return;
    double least = report.seconds * 90 / width, step = std::pow(10, std::floor(std::log10(least)));
    for (double factor : {2.0, 2.5, 2.0})
      if (step < least)
        step *= factor;
    for (int tick = 0; tick * step <= report.seconds * (1 + 1e-9); ++tick) {
      std::string x = number(left + tick * step * scale);
      out << "<line x1=\"" << x << "\" x2=\"" << x << "\" y1=\"0\" y2=\"" << number(bottom) << "\"/>"
          << "<text class=\"soft\" text-anchor=\"middle\" x=\"" << x << "\" y=\"" << number(bottom + 14) << "\">"
          << secondsText(tick * step) << "</text>\n";
    }
  }

  void printDevice(size_t number, double y) {
    const Report::Device &device = report.devices[number];
    std::string name = device.name;
    if (name.size() > 17)
      name.replace(15, std::string::npos, "...");
    out << "<text x=\"4\" y=\"" << y + 13 << "\">" << escaped(name) << "</text><text class=\"soft\" x=\"4\" y=\""
        << y + 27 << "\">" << percentText(report.seconds > 0 ? device.busy / report.seconds : 0) << " busy</text>\n";
    rect("idle", left, y, width, lane);
    for (size_t box : lanes[number])
      printBox(box, report.boxes[box].computes ? y : y + lane + 2);
    if (most > 0)
      printMemory(device, y + row);
  }

  void printBox(size_t index, double y) {
    const Report::Box &box = report.boxes[index];
    double seconds = box.end - box.start, w = seconds * scale, x = left + box.start * scale;
    if (seconds <= 0)
      return;
    std::string hint;
    if (report.boxes.size() <= mostHints)
      hint = report.describe(index) + ", " + secondsText(box.start) + " to " + secondsText(box.end);
    llvm::StringRef kind = box.kind.split(' ').first;
    if (!box.computes)
      return rect(kind, x, y, std::max(w, .75), communication, hint);
    if (box.pale)
      out << "<g class=\"later\">";
    rect(kind, x + .5, y, std::max(w - 1, .5), lane, hint);
    std::string label = std::to_string(box.number);
    if (box.number >= 0 && w >= 7.0 * label.size() + 4)
      out << "<text class=\"number\" x=\"" << number(x + w / 2) << "\" y=\"" << number(y + lane / 2 + 4) << "\">"
          << label << "</text>\n";
    if (box.pale)
      out << "</g>\n";
  }

  /// All devices have one scale: the height is the largest memory of any.
  void printMemory(const Report::Device &device, double bottom) {
    auto height = [&](double bytes) { return number(bottom - bytes / most * memory); };
    out << "<path class=\"memory\" d=\"M" << number(left) << " " << number(bottom);
    for (const Simulation::Sample &sample : device.memory)
      out << "H" << number(left + sample.time * scale) << "V" << height(sample.bytes);
    out << "H" << number(left + width) << "V" << number(bottom) << "Z\"><title>memory: at most "
        << bytesText(device.peakBytes) << "</title></path>\n";
  }

  const Report &report;
  llvm::raw_ostream &out;
  std::vector<std::vector<size_t>> lanes; // boxes by device
  bool communicates = false;
  double most = 0; // bytes
  double width, scale, row;
};
} // namespace

void pipeline::printSwimlane(const Report &report, llvm::raw_ostream &out) { Swimlane(report, out).print(); }
