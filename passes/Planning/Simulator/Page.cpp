#include "passes/Planning/Simulator/Text.h"

using namespace divisi::planning;
using namespace divisi::planning::pipeline;

static constexpr char head[] = R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<!-- Nothing is loaded and nothing runs, whatever the names say. -->
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
:root { color-scheme: light dark; --paper: #fcfcfa; --raised: #f3f3ef; --ink: #1c1d21; --soft: #63656d; --line: #dcdcd5; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #16181c; --raised: #1f2228; --ink: #e6e6e2; --soft: #9c9fa8; --line: #343841; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 84rem; padding: 1.6rem 1.5rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; font-variant-numeric: tabular-nums; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0; overflow-wrap: anywhere; }
p { margin: .3rem 0; color: var(--soft); max-width: 56rem; }
.facts { display: flex; flex-wrap: wrap; gap: 1rem 1.9rem; margin: 1.2rem 0; padding: 1rem 1.3rem; border-radius: .6rem;
  background: var(--raised); }
.facts div { max-width: 10.5rem; }
.facts b { display: block; font-size: 1.5rem; line-height: 1.3; font-weight: 600; }
.facts span { display: block; color: var(--soft); font-size: .85rem; line-height: 1.35; }
.picture { overflow-x: auto; padding-bottom: .4rem; }
.picture svg { display: block; }
.key { display: flex; flex-wrap: wrap; gap: .2rem 1.3rem; margin: .6rem 0; color: var(--soft); font-size: .88rem; }
.key svg { vertical-align: -1px; margin-right: .4em; }
.wide { overflow-x: auto; margin-top: 1.4rem; }
table { border-collapse: collapse; }
th { font-weight: 500; font-size: .85rem; color: var(--soft); }
th, td { padding: .35rem 1.6rem .35rem 0; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
</style>
)";

namespace {

/// The kinds of boxes in the picture: the class, and its text.
std::vector<std::pair<const char *, const char *>> legend(const Simulation &simulation) {
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
  std::vector<std::pair<const char *, const char *>> entries = {{"forward", "forward"}};
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
    entries.push_back({"all", "all_reduce"});
  entries.push_back({"idle", "idle"});
  if (memory)
    entries.push_back({"memory", "memory (one scale for all devices)"});
  if (later)
    entries.push_back({"later", "pale: chunks after the first"});
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

void pipeline::printPage(const Simulation &simulation, const Names &names, llvm::raw_ostream &out) {
  std::string title = escaped(names.title);
  out << head << "<title>" << title << "</title>\n</head>\n<body>\n<h1>" << title << "</h1>\n<p>"
      << subtitle(simulation.options) << "</p>\n<div class=\"facts\">\n";
  for (const KeyFigure &figure : keyFigures(simulation))
    out << "<div><span>" << figure.name << "</span><b>" << figure.value << "</b><span>" << figure.note
        << "</span></div>\n";
  out << "</div>\n<div class=\"key\">\n";
  for (auto [kind, text] : legend(simulation)) {
    bool later = llvm::StringRef(kind) == "later";
    out << "<span><svg class=\"swimlane\" width=\"12\" height=\"12\"><g" << (later ? " class=\"later\"" : "")
        << "><rect class=\"" << (later ? "forward" : kind) << "\" width=\"12\" height=\"12\" rx=\"2\"/></g></svg>"
        << text << "</span>\n";
  }
  out << "</div>\n<div class=\"picture\">\n";
  printSwimlane(simulation, names, out);
  out << "</div>\n<div class=\"wide\"><table>\n";
  const char *cell = "th";
  for (const auto &row : deviceTable(simulation, names)) {
    out << "<tr>";
    for (const std::string &text : row)
      out << "<" << cell << ">" << escaped(text) << "</" << cell << ">";
    out << "</tr>\n";
    cell = "td";
  }
  out << "</table></div>\n<p>live: microbatches whose activations a device keeps at the worst moment.";
  if (simulation.options.asynchronous())
    out << " versions: of the weights, kept at the worst moment.";
  out << " Times are a simulation, not measurements.</p>\n</body>\n</html>\n";
}
