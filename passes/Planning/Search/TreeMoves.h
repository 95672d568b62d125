#pragma once
#include "passes/Planning/Search/Graph.h"

namespace divisi::planning {

/// Lowers cost + price x memory of a plan (of any memory) by moves of many variables at once: those of an induced forest, which no cycle
/// of edges joins, get the best strategies that the choices of all others leave them, by dynamic programming. Each forest begins
/// with the variables that were in the fewest before. (F. Hamze, N. de Freitas, "From fields to trees", UAI 2004, which samples
/// so.) Ends when two forests in turn change nothing, or after a fixed number.
void improveByTrees(const Graph &graph, std::vector<int> &choice, double price);

} // namespace divisi::planning
