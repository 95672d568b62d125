#include "passes/Planning/Simulator/Text.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace divisi::planning;
using namespace divisi::planning::pipeline;

static std::string formatted(const char *format, double value) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format(format, value);
  return text;
}

static std::string scaled(double value, llvm::ArrayRef<const char *> units) {
  if (value == 0)
    return "0";
  size_t unit = 0;
  for (; unit + 1 < units.size() && value >= 999.5; ++unit)
    value /= 1000;
  return formatted("%.3g", value) + " " + units[unit];
}

std::string pipeline::secondsText(double seconds) { return scaled(seconds * 1e9, {"ns", "us", "ms", "s"}); }
std::string pipeline::bytesText(double bytes) { return scaled(bytes, {"B", "kB", "MB", "GB", "TB", "PB"}); }
std::string pipeline::percentText(double share) { return formatted("%.1f %%", 100 * share); }

std::string pipeline::escaped(llvm::StringRef text) {
  std::string result;
  for (char c : text)
    switch (c) {
    case '&':
      result += "&amp;";
      break;
    case '<':
      result += "&lt;";
      break;
    case '>':
      result += "&gt;";
      break;
    case '"':
      result += "&quot;";
      break;
    case '\'':
      result += "&#39;";
      break;
    default:
      result += (unsigned char)c < 0x20 || c == 0x7f ? ' ' : c;
    }
  return result;
}

std::string pipeline::describe(const Event &event, const std::vector<Edge> &edges) {
  if (event.kind == Event::compute)
    return describe(event.task);
  if (event.kind == Event::allReduce)
    return "all_reduce of gradients" + (event.task.chunk ? " (chunk " + std::to_string(event.task.chunk) + ")" : "");
  const Message &m = event.message;
  auto [from, to, bytes] = edges[m.edge];
  if (m.gradient)
    std::swap(from, to);
  return (m.gradient ? "gradient " : "activation ") + std::to_string(from) + " -> " + std::to_string(to) +
         ", microbatch " + std::to_string(m.microbatch);
}

std::string Names::device(size_t number) const {
  return number < devices.size() ? devices[number] : "device " + std::to_string(number);
}

std::vector<KeyFigure> pipeline::keyFigures(const Simulation &simulation) {
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
  std::vector<KeyFigure> figures;
  std::string count = "for " + std::to_string(o.microbatches) + (o.unsplit() ? " minibatch" : " microbatch") +
                      (o.microbatches == 1 ? "" : "es");
  if (o.asynchronous())
    figures.push_back({o.doubleBuffered() ? "time per batch" : "time per minibatch", secondsText(simulation.steadySeconds), "once the pipeline is full"});
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

std::vector<std::vector<std::string>> pipeline::deviceTable(const Simulation &simulation, const Names &names) {
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
  // Columns without information are left out.
  for (size_t column = rows[0].size(); column-- > 2;)
    if (llvm::all_of(llvm::drop_begin(rows), [&](const auto &row) { return row[column] == "0"; }) ||
        (rows[0][column] == "versions" && !o.asynchronous()))
      for (auto &row : rows)
        row.erase(row.begin() + column);
  return rows;
}

void pipeline::printTable(const Simulation &simulation, const Names &names, llvm::raw_ostream &out) {
  for (const KeyFigure &figure : keyFigures(simulation))
    out << llvm::formatv("{0,-18} {1,10}  {2}\n", figure.name, figure.value, figure.note);
  out << "\n";
  auto rows = deviceTable(simulation, names);
  std::vector<size_t> widths(rows[0].size());
  for (const auto &row : rows)
    for (auto [width, cell] : llvm::zip(widths, row))
      width = std::max(width, cell.size());
  for (const auto &row : rows) {
    out << row[0] << std::string(widths[0] - row[0].size(), ' ');
    for (size_t i = 1; i < row.size(); ++i)
      out << "  " << std::string(widths[i] - row[i].size(), ' ') << row[i];
    out << "\n";
  }
}
