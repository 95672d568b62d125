#pragma once
#include "passes/Planning/Simulator/Render.h"

namespace divisi::planning::pipeline {

/// Three digits and a unit: "1.25 ms", "3.5 GB" (decimal). Zero is "0".
std::string secondsText(double seconds);
std::string bytesText(double bytes);
/// "87.5 %".
std::string percentText(double share);
/// Escapes text for XML and HTML, in text and attributes. Characters that XML forbids become spaces.
std::string escaped(llvm::StringRef text);

/// "forward of microbatch 3", "activation 0 -> 1, microbatch 3", "all_reduce of gradients".
std::string describe(const Event &event, const std::vector<Edge> &edges);

/// A figure above the table and on the page.
struct KeyFigure {
  std::string name, value, note;
};
std::vector<KeyFigure> keyFigures(const Simulation &simulation);

/// The table of devices: a heading for each column, then the cells. Columns with only zeros are left out.
std::vector<std::vector<std::string>> deviceTable(const Simulation &simulation, const Names &names);

} // namespace divisi::planning::pipeline
