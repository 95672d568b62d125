#pragma once
#include "passes/Planning/Search/PairwiseProblem.h"

namespace divisi::planning {

struct SolveOptions {
  double gap = 1e-3;        // relative: stop as soon as the plan is proven to be this close to the optimum
  int rounds = 300;         // of message passing at one price
  double work = 1.5e9;      // matrix entries that message passing may read: a deterministic measure of time
  double tables = 1.6e8;    // sums that exact elimination may compute, besides folding; one may use a quarter
  double branches = 2e7;    // sums that branch and bound may compute
  bool exhaustSmall = true; // enumerate all plans of tiny problems
  bool tied = true;         // tie variables of one kind in a first plan
  bool certify = true;      // after a tied plan: also search and bound the whole problem
  int others = 0;           // how many other plans are wanted that cost hardly more
  double limit = std::numeric_limits<double>::infinity(); // microseconds: plans that cost more are not wanted
};

struct Solution {
  std::vector<int> choice;
  std::vector<std::vector<int>> others; // within the capacity, and within the gap of the best plan's cost
  double cost = 0, memory = 0; // of the choice: microseconds, bytes
  double bound = 0;            // lower bound on the cost of plans within the capacity; infinity if there is none
  bool fits = false;           // the choice is within the capacity
  bool overLimit = false;      // given up: all plans cost more than the limit, or all tied ones; there may be no choice
  bool infeasible = false;     // proven: the least memories exceed the capacity, and the choice has the least memory
  double price = 0;            // microseconds per byte of capacity, at the bound
  int rounds = 0;              // of message passing, in all

  /// Relative: the cost is at most this share above the optimum.
  double gap() const { return cost > bound ? (cost - bound) / cost : 0; }
};

/// Minimises the cost within the capacity: TRW-S for plans and bounds, exact elimination over the strategies that the
/// bound cannot exclude, a Lagrange multiplier for the capacity, branch and bound on the remaining gap. The result is
/// never worse than a plan of `starts` (one strategy for each variable). Deterministic.
Solution solve(const PairwiseProblem &problem, const SolveOptions &options = {},
               const std::vector<std::vector<int>> &starts = {});

} // namespace divisi::planning
