#pragma once
#include "passes/Planning/Search/Graph.h"

namespace divisi::planning {

/// An order in which variables are eliminated: always the variable whose elimination adds the fewest edges (min-fill),
/// or the one with the smallest table (min-weight).
struct EliminationOrder {
  enum class Rule { Fill, Weight };
  /// For the graph with other numbers of strategies; variables with one strategy do not count. Ends early, with more
  /// work than `mostWork`, if that is exceeded.
  EliminationOrder(const Graph &graph, const std::vector<int> &sizes, Rule rule, double mostWork);
  /// The order by the rule that needs less work; more than `mostWork` if none is found.
  static EliminationOrder best(const Graph &graph, const std::vector<int> &sizes, double mostWork);
  /// The same order of a graph that was restricted to as many strategies of each variable.
  EliminationOrder in(const ReducedGraph &smaller) const;

  std::vector<int> order, position;    // variables, and their places in the order
  std::vector<std::vector<int>> scope; // by variable: the later ones that its table depends on, the latest first
  /// The sums to compute and the numbers to store: both grow exponentially with the graph's width.
  double work = 0, storage = 0;

private:
  EliminationOrder() = default;
};

} // namespace divisi::planning
