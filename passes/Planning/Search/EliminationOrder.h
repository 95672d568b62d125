#pragma once
#include "passes/Planning/Search/Graph.h"

namespace divisi::planning {

/// In which order to eliminate variables: always one whose elimination joins the fewest pairs (min-fill), or one of the
/// smallest table (min-weight).
struct EliminationOrder {
  enum class Rule { Fill, Weight };
  /// For the graph with other numbers of strategies: variables that have one only do not count. Ends early, with more
  /// work than that, where `mostWork` is exceeded.
  EliminationOrder(const Graph &graph, const std::vector<int> &sizes, Rule rule, double mostWork);
  /// The rule that makes less work.
  static EliminationOrder best(const Graph &graph, const std::vector<int> &sizes, double mostWork);

  std::vector<int> order, position;    // variables, and their places in the order
  std::vector<std::vector<int>> scope; // by variable: the later ones that its table depends on, the latest first
  /// Sums to be formed, and numbers to be stored: both grow exponentially with the width of the graph.
  double work = 0, storage = 0;
};

} // namespace divisi::planning
