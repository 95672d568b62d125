#pragma once
#include "passes/Planning/Search/Graph.h"

namespace divisi::planning {

/// The exact least cost + price x memory (microseconds, microseconds per byte), and a plan that has it, by eliminating
/// one variable after the other (bucket elimination). `mostWork` must be enough for the best EliminationOrder.
double eliminateAll(const Graph &graph, double price, double mostWork, std::vector<int> &choice);

} // namespace divisi::planning
