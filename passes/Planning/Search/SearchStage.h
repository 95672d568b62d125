#pragma once
#include "passes/Planning/Search/TreeReweighted.h"

#include <memory>

namespace divisi::planning {

/// A graph without the strategies that a search has excluded so far, and the message passing on it.
class SearchStage {
public:
  explicit SearchStage(Reduction reduction) : reduction(std::move(reduction)), messages(this->reduction.graph) {}

  const Graph &graph() const { return reduction.graph; }
  /// A plan of this stage as one of the whole graph.
  std::vector<int> expand(const std::vector<int> &choice) const { return reduction.expand(choice); }
  /// A plan of the whole graph as one of this stage; where its strategy was excluded, the last round's.
  std::vector<int> contract(const std::vector<int> &choice) const;

  /// The next stage: without the strategies that cost more than `limit` (cost + the last round's price x memory), but
  /// with all of these plans (of the whole graph). Null if too little falls away.
  std::unique_ptr<SearchStage> without(double limit, const std::vector<const std::vector<int> *> &plans) const;

  /// Minimises cost + price x memory exactly over the strategies that the last round's bound (at this price) does not
  /// exclude, given a plan of value `upper`; if that makes more sums than `mostWork`, over as many strategies as it
  /// allows. Improves the plan, takes the sums off `workLeft`, and returns a bound: what is left out costs more than
  /// it.
  double eliminate(double price, double upper, double mostWork, double &workLeft, std::vector<int> &choice) const;

private:
  Reduction reduction;

public:
  TreeReweighted messages;
};

} // namespace divisi::planning
