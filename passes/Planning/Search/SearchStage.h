#pragma once
#include "passes/Planning/Search/TreeReweighted.h"

#include <memory>

namespace divisi::planning {

/// A graph without the strategies that a search has excluded so far, and the message passing on it.
class SearchStage {
public:
  explicit SearchStage(ReducedGraph reduction) : reduction(std::move(reduction)), messages(this->reduction.graph) {}

  const Graph &graph() const { return reduction.graph; }
  /// A plan of this stage as one of the whole graph.
  std::vector<int> expand(const std::vector<int> &choice) const { return reduction.expand(choice); }
  /// A plan of the whole graph as one of this stage; an excluded strategy is replaced by the last round's choice.
  std::vector<int> contract(const std::vector<int> &choice) const;

  /// The next stage: without the strategies that cost more than `limit` (cost + the last round's price x memory), but
  /// with the strategies of these plans (of the whole graph). Null if too few strategies are excluded.
  std::unique_ptr<SearchStage> without(double limit, const std::vector<const std::vector<int> *> &plans) const;

  /// Minimises cost + price x memory exactly over the strategies that the last round's bound (at this price) does not
  /// exclude, given a plan of value `upper`. If that takes more than `mostWork` sums, over as many strategies as these
  /// allow, or with `all` not at all. Improves the plan, subtracts the sums from `workLeft`, and returns a bound: plans
  /// with other strategies cost more.
  double eliminate(double price, double upper, double mostWork, double &workLeft, std::vector<int> &choice,
                   bool all) const;

private:
  ReducedGraph reduction;

public:
  TreeReweighted messages;
};

} // namespace divisi::planning
