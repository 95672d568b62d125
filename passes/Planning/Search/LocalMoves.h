#pragma once
#include "passes/Planning/Search/Graph.h"

namespace divisi::planning {

/// Changes one variable at a time, and with `pairs` also two neighbours at once, as long as cost + price x memory
/// decreases and the memory stays within the capacity (bytes).
void improve(const Graph &graph, std::vector<int> &choice, double price, double capacity, bool pairs);

/// Starts from a plan within the capacity and takes over from a cheaper plan beyond it what still fits, by connected
/// components of their difference, so that no edge joins choices of both plans.
std::vector<int> mix(const Graph &graph, const std::vector<int> &within, const std::vector<int> &beyond,
                     double capacity);

} // namespace divisi::planning
