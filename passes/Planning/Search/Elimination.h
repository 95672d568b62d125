#pragma once
#include "passes/Planning/Search/EliminationOrder.h"

namespace divisi::planning {

/// The exact least cost + price x memory (microseconds, microseconds per byte), and a plan that has it, by eliminating
/// one variable after the other (bucket elimination).
double eliminateAll(const Graph &graph, double price, const EliminationOrder &order, std::vector<int> &choice);

} // namespace divisi::planning
