#pragma once
#include "passes/Planning/Search/Planner.h"

#include <functional>

namespace divisi::planning {

/// A plan and what prices it.
struct PricedPlan {
  const Planner *planner;
  const Candidate *candidate;
};

/// At which value of a figure of the cluster another of the plans becomes the best.
struct BreakEven {
  std::string figure; // "bandwidth of node"
  std::string unit;   // "B/s", "s", "B", "flop/s"
  double now, then;   // its value, and the one nearest to it at which the choice flips
  size_t winner;      // the plan that is best there
};

/// Tries every figure up and down by factors of two up to 64, and narrows where the best plan changes to one percent.
std::vector<BreakEven> breakEvens(const std::vector<PricedPlan> &plans, const Cluster &cluster);

} // namespace divisi::planning
