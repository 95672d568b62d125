#pragma once
#include "passes/Planning/Search/EliminationOrder.h"
#include "passes/Planning/Search/TreeReweighted.h"

#include <limits>
#include <memory>
#include <optional>

namespace divisi::planning {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

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

  /// Strategies of every variable, and an order in which to eliminate the variables.
  struct Narrowed {
    std::vector<std::vector<int>> kept;
    double width; // plans with other strategies cost at least so much more than the last round's bound
    EliminationOrder order;
  };
  /// How narrow the strategies are: 0 keeps all with which a plan may be cheaper than `upper`, each further step fewer.
  static constexpr int mostNarrow = 12;
  /// The strategies of some plans of this stage, and those that the last round's bound allows; nothing if it takes more than
  /// `mostWork` sums to eliminate the variables.
  std::optional<Narrowed> narrowed(int narrowness, double upper, const std::vector<std::vector<int>> &plans,
                                   double mostWork) const;
  /// As many strategies as that work allows.
  std::optional<Narrowed> leastNarrowed(double upper, const std::vector<std::vector<int>> &plans, double mostWork) const;

  /// Minimises cost + price x memory (the last round's) exactly over these strategies, given a plan of value `upper`, which
  /// it improves. Returns a bound on the values of all plans of this stage. (Over the strategies of several plans: fusion
  /// moves, V. Lempitsky, C. Rother, S. Roth, A. Blake, PAMI 2010.)
  double eliminate(const Narrowed &narrowed, double price, double upper, std::vector<int> &choice) const;

private:
  double leastBound() const;

  ReducedGraph reduction;

public:
  TreeReweighted messages;
};

} // namespace divisi::planning
