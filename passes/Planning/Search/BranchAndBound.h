#pragma once
#include "passes/Planning/Search/TreeReweighted.h"

namespace divisi::planning {

/// A plan and what it takes: microseconds and bytes.
struct GraphPlan {
  std::vector<int> choice;
  double cost = std::numeric_limits<double>::infinity(), memory = 0;
};

/// Fixes one variable after the other, depth first and the most promising strategy first, and turns back where the
/// messages of a finished round at this price show that nothing within the capacity (bytes) is cheaper than `best`.
/// `best` becomes the cheapest plan found. True if the search came to its end within `mostWork` sums: then no plan
/// within the capacity is cheaper, but for 1e-10 of its cost. Recursive: a frame of the stack for each variable.
bool branchAndBound(const Graph &graph, const TreeReweighted &messages, double price, double capacity, double mostWork,
                    GraphPlan &best);

} // namespace divisi::planning
