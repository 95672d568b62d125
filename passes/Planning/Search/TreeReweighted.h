#pragma once
#include "passes/Planning/Search/MinPlus.h"

namespace divisi::planning {

/// Sequential tree-reweighted message passing (TRW-S; Kolmogorov, PAMI 2006) on cost + price x memory: rounds raise a
/// lower bound, and each gives a plan. Messages stay when the price changes. Costs are in microseconds, prices in
/// microseconds per byte. The graph must outlive it.
class TreeReweighted {
public:
  explicit TreeReweighted(const Graph &graph);
  /// Takes the messages over from a larger graph that was restricted to this one.
  void adopt(const TreeReweighted &larger, const Reduction &reduction);

  /// Takes the messages over from a graph in which each variable stands for several of this one (`variable`: by
  /// variable of this graph, with as many strategies): equal shares.
  void spread(const TreeReweighted &tied, const std::vector<int> &variable);

  /// One pass forwards and one back.
  void round(double price);

  /// After a round: no plan has less cost + price x memory than this.
  double bound() const { return lowerBound; }
  /// After a round: a plan, and its cost + price x memory.
  const std::vector<int> &choice() const { return plan; }
  double value() const { return planValue; }
  /// After a round: any plan with this strategy at this variable has at least this cost + price x memory.
  double boundWith(int variable, int strategy) const {
    return forwardBound + reduced[variableStart[variable] + strategy];
  }
  /// After a round: any plan that begins with given strategies at the variables < `count` has at least their cost +
  /// price x memory, and `messageBack` of each edge from there to the others, and this.
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
  double lowerBound = 0, forwardBound = 0, planValue = 0;

  std::vector<double> belief, weight, local;
  MinPlus minPlus;
};

} // namespace divisi::planning
