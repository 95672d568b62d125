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

void pipeline::printPage(const Report &report, llvm::raw_ostream &out) {
  std::string title = escaped(report.title);
  out << head << "<title>" << title << "</title>\n</head>\n<body>\n<h1>" << title << "</h1>\n<p>" << report.subtitle
      << "</p>\n<div class=\"facts\">\n";
  for (const Report::Figure &figure : report.figures)
    out << "<div><span>" << figure.name << "</span><b>" << figure.value << "</b><span>" << figure.note
        << "</span></div>\n";
  out << "</div>\n<div class=\"key\">\n";
  for (const Report::Legend &entry : report.legend)
    out << "<span><svg class=\"swimlane\" width=\"12\" height=\"12\"><g" << (entry.pale ? " class=\"later\"" : "")
        << "><rect class=\"" << entry.kind.split(' ').first << "\" width=\"12\" height=\"12\" rx=\"2\"/></g></svg>"
        << entry.text << "</span>\n";
  out << "</div>\n<div class=\"picture\">\n";
  printSwimlane(report, out);
  out << "</div>\n<div class=\"wide\"><table>\n";
  const char *cell = "th";
  for (const auto &row : report.table) {
    out << "<tr>";
    for (const std::string &text : row)
      out << "<" << cell << ">" << escaped(text) << "</" << cell << ">";
    out << "</tr>\n";
    cell = "td";
  }
  out << "</table></div>\n<p>" << report.note << " Times are a simulation, not measurements.</p>\n</body>\n</html>\n";
}
