#pragma once
#include "passes/Planning/Search/Planner.h"

#include <functional>

namespace divisi::planning {

/// A plan and the planner that predicts its time.
struct PricedPlan {
  const Planner *planner;
  const Candidate *candidate;
};

/// The value of a figure of the cluster at which another plan becomes the best.
struct BreakEven {
  std::string figure; // "bandwidth of node"
  std::string unit;   // "B/s", "s", "B", "flop/s"
  double now, then;   // its value, and the nearest one at which the best plan changes
  size_t winner;      // the plan that is best there
};

/// For every figure of the cluster, tries factors of two up to 64 in both directions, and narrows the value at which
/// the best plan changes to one percent.
std::vector<BreakEven> breakEvens(const std::vector<PricedPlan> &plans, const Cluster &cluster);

} // namespace divisi::planning
