#pragma once
#include "passes/Planning/Search/Graph.h"

namespace divisi::planning {

/// A graph without the variables of at most two neighbours: the least sums over their strategies are costs of the
/// neighbour, or entries of an edge between the two (bucket elimination while it is cheap). The least cost of the rest
/// is that of the whole. Variables whose memory depends on the strategy stay, unless memory is of no account.
class FoldedGraph {
public:
  /// `roomy`: every plan is within the capacity; the fixed memory of the rest is then an upper bound.
  FoldedGraph(const Graph &graph, bool roomy);

  const Graph &graph() const { return rest; }
  /// The cheapest plan of the whole graph that contains this one of the rest.
  std::vector<int> expand(const std::vector<int> &choice) const;
  /// By variable of the whole graph: its number in the rest, or -1.
  const std::vector<int> &variables() const { return numbers; }

private:
  class Builder;
  struct Side { // of a variable that was eliminated, towards a neighbour
    int neighbour;
    std::shared_ptr<const Table> rows; // by strategy of the neighbour
  };
  struct Eliminated {
    int variable;
    std::vector<double> cost; // by strategy, with those of neighbours that were eliminated before
    std::vector<Side> sides;
  };

  Graph rest;
  std::vector<int> numbers;
  std::vector<Eliminated> eliminated; // in this order
};

} // namespace divisi::planning
