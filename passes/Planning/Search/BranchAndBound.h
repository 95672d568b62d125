#pragma once
#include "passes/Planning/Search/TreeReweighted.h"

namespace divisi::planning {

/// A plan with its cost in microseconds and its memory in bytes.
struct GraphPlan {
  std::vector<int> choice;
  double cost = std::numeric_limits<double>::infinity(), memory = 0;
};

/// Fixes one variable after another, depth first and the most promising strategy first, and backtracks where the
/// messages of a finished round at this price prove that no completion within the capacity (bytes) is cheaper than
/// `best`. `best` becomes the cheapest plan found. Returns whether the search finished within `mostWork` sums: then no
/// plan within the capacity is cheaper by more than 1e-10 of its cost. Recursive, one stack frame for each variable.
bool branchAndBound(const Graph &graph, const TreeReweighted &messages, double price, double capacity, double mostWork,
                    GraphPlan &best);

} // namespace divisi::planning
