#pragma once
#include "passes/Planning/Search/MinPlus.h"

namespace divisi::planning {

/// Sequential tree-reweighted message passing (TRW-S; Kolmogorov, PAMI 2006) on cost + price x memory: rounds raise a
/// lower bound, and each gives a plan. Messages stay valid when the price changes. Costs are in microseconds, prices in
/// microseconds per byte. The graph must outlive it.
class TreeReweighted {
public:
  explicit TreeReweighted(const Graph &graph);
  /// Takes over the messages of a larger graph that was restricted to this one.
  void adopt(const TreeReweighted &larger, const ReducedGraph &reduction);

  /// Takes over the messages, in equal shares, of a graph in which each variable stands for several of this one
  /// (`variable`: by variable of this graph, with equally many strategies; -1: there is none).
  void spread(const TreeReweighted &tied, const std::vector<int> &variable);

  /// One pass forwards and one backwards.
  void round(double price);

  /// After a round: a lower bound on cost + price x memory of every plan.
  double bound() const { return lowerBound; }
  /// After a round: a plan.
  const std::vector<int> &choice() const { return plan; }
  /// After a round: a lower bound on cost + price x memory of every plan with this strategy of this variable.
  double boundWith(int variable, int strategy) const {
    return forwardBound + reduced[variableStart[variable] + strategy];
  }
  /// After a round: a plan whose variables < `count` are given has at least their cost + price x memory, plus
  /// `messageBack` of each edge from there to the others, plus this.
  double boundFrom(int count) const { return boundOfRest[count]; }
  const double *messageBack(int edge) const { return back.data() + backStart[edge]; }

private:
  void forward(double price);
  void backward(double price);
  void gather(int variable, double price);
  double send(int edge, bool up, double share);

  const Graph &graph;
  std::vector<size_t> variableStart, aheadStart, backStart;
  std::vector<double> ahead, back; // messages to the greater and to the smaller end of each edge
  std::vector<double> reduced;
  std::vector<double> boundOfRest;
  std::vector<int> plan;
  double lowerBound = 0, forwardBound = 0;

  std::vector<double> belief, weight, local;
  MinPlus minPlus;
};

} // namespace divisi::planning
