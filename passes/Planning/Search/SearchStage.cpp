#include "passes/Planning/Search/SearchStage.h"

#include "passes/Planning/Search/Elimination.h"

#include <algorithm>
#include <cmath>

using namespace divisi::planning;

namespace {

/// A new stage is made if it has at most this share of the entries.
constexpr double worthRebuilding = 0.8;
/// What a step of narrowing leaves of the width.
constexpr double narrowing = 0.6;
/// Numbers that one elimination may store (8 bytes each).
constexpr double mostStorage = 5e7;

/// The composition of two reductions; the graph is that of the second.
ReducedGraph compose(const ReducedGraph &first, ReducedGraph second) {
  std::vector<int> variable(first.variable.size(), -1);
  std::vector<std::vector<int>> strategies(first.variable.size());
  for (size_t v = 0; v < first.variable.size(); ++v) {
    int middle = first.variable[v];
    if (middle < 0) {
      strategies[v] = {first.strategies[v][0]};
      continue;
    }
    variable[v] = second.variable[middle];
    for (int s : second.strategies[middle])
      strategies[v].push_back(first.strategies[v][s]);
  }
  second.variable = std::move(variable);
  second.strategies = std::move(strategies);
  return second;
}

} // namespace

std::vector<int> SearchStage::contract(const std::vector<int> &choice) const {
  std::vector<int> result = messages.choice();
  for (size_t v = 0; v < choice.size(); ++v) {
    const std::vector<int> &list = reduction.strategies[v];
    auto at = std::lower_bound(list.begin(), list.end(), choice[v]);
    if (int to = reduction.variable[v]; to >= 0 && at != list.end() && *at == choice[v])
      result[to] = static_cast<int>(at - list.begin());
  }
  return result;
}

std::unique_ptr<SearchStage> SearchStage::without(double limit,
                                                  const std::vector<const std::vector<int> *> &plans) const {
  std::vector<std::vector<int>> kept(graph().variables.size()), present;
  for (const std::vector<int> *plan : plans)
    present.push_back(contract(*plan));
  for (int v = 0; v < static_cast<int>(kept.size()); ++v)
    for (int s = 0; s < graph().variables[v].size(); ++s)
      if (messages.boundWith(v, s) <= limit ||
          std::any_of(present.begin(), present.end(), [&](const auto &choice) { return choice[v] == s; }))
        kept[v].push_back(s);
  double left = 0;
  for (const Graph::Edge &edge : graph().edges)
    left += static_cast<double>(kept[edge.from].size()) * kept[edge.to].size();
  if (left > worthRebuilding * graph().entries())
    return nullptr;
  ReducedGraph step = restrict(graph(), kept);
  auto next = std::make_unique<SearchStage>(compose(reduction, step));
  next->messages.adopt(messages, step);
  return next;
}

/// Of all plans, by the last round's forward pass, to which reduced costs are relative.
double SearchStage::leastBound() const {
  if (graph().variables.empty())
    return messages.bound();
  double least = infinity;
  for (int s = 0; s < graph().variables[0].size(); ++s)
    least = std::min(least, messages.boundWith(0, s));
  return least;
}

std::optional<SearchStage::Narrowed> SearchStage::narrowed(int narrowness, double upper,
                                                           const std::vector<std::vector<int>> &plans,
                                                           double mostWork) const {
  const double least = leastBound();
  const double width = (upper - least + 1e-9 * std::abs(upper)) * std::pow(narrowing, narrowness);
  std::vector<std::vector<int>> kept(graph().variables.size());
  std::vector<int> sizes;
  for (int v = 0; v < static_cast<int>(kept.size()); ++v) {
    for (int s = 0; s < graph().variables[v].size(); ++s)
      if (messages.boundWith(v, s) <= least + width ||
          std::any_of(plans.begin(), plans.end(), [&](const std::vector<int> &plan) { return plan[v] == s; }))
        kept[v].push_back(s);
    sizes.push_back(static_cast<int>(kept[v].size()));
  }
  if (mostWork <= 0)
    return std::nullopt;
  EliminationOrder order = EliminationOrder::best(graph(), sizes, mostWork);
  if (order.work > mostWork || order.storage > mostStorage)
    return std::nullopt;
  return Narrowed{std::move(kept), width, std::move(order)};
}

std::optional<SearchStage::Narrowed> SearchStage::leastNarrowed(double upper,
                                                                const std::vector<std::vector<int>> &plans,
                                                                double mostWork) const {
  std::optional<Narrowed> result;
  for (int first = 0, last = mostNarrow; first < last;) { // by bisection
    const int middle = (first + last) / 2;
    if (auto found = narrowed(middle, upper, plans, mostWork)) {
      result = std::move(found);
      last = middle;
    } else
      first = middle + 1;
  }
  return result;
}

double SearchStage::eliminate(const Narrowed &narrowed, double price, double upper, std::vector<int> &choice) const {
  ReducedGraph left = restrict(graph(), narrowed.kept);
  std::vector<int> found;
  const double value = eliminateAll(left.graph, price, narrowed.order.in(left), found);
  if (value < upper)
    choice = left.expand(found);
  return std::min({upper, value, leastBound() + narrowed.width});
}
