#include "passes/Planning/Search/SearchStage.h"

#include "passes/Planning/Search/Elimination.h"

#include <algorithm>
#include <cmath>
#include <optional>

using namespace divisi::planning;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
/// A new stage is made if it has at most this share of the entries.
constexpr double worthRebuilding = 0.8;
/// The number of successively smaller sets of strategies that one elimination tries.
constexpr int mostWidths = 12;
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

double SearchStage::eliminate(double price, double upper, double mostWork, double &workLeft, std::vector<int> &choice,
                              bool all) const {
  const Graph &graph = reduction.graph;
  if (graph.variables.empty())
    return upper;
  double least = infinity; // of the forward pass; reduced costs are relative to it
  for (int s = 0; s < graph.variables[0].size(); ++s)
    least = std::min(least, messages.boundWith(0, s));
  const double widest = upper - least + 1e-9 * std::abs(upper);
  double width = 0;
  std::optional<EliminationOrder> order;
  std::vector<std::vector<int>> kept;
  auto narrow = [&](int attempt) {
    double trial = widest * std::pow(narrowing, attempt);
    std::vector<std::vector<int>> list(graph.variables.size());
    std::vector<int> sizes;
    for (int v = 0; v < static_cast<int>(list.size()); ++v) {
      for (int s = 0; s < graph.variables[v].size(); ++s)
        if (messages.boundWith(v, s) <= least + trial || s == choice[v])
          list[v].push_back(s);
      sizes.push_back(static_cast<int>(list[v].size()));
    }
    EliminationOrder trialOrder = EliminationOrder::best(graph, sizes, mostWork);
    if (trialOrder.work > mostWork || trialOrder.storage > mostStorage)
      return false;
    order = std::move(trialOrder);
    width = trial;
    kept = std::move(list);
    return true;
  };
  // Finds the largest possible set by bisection.
  for (int first = 0, last = all ? 1 : mostWidths; first < last;) {
    int middle = (first + last) / 2;
    if (narrow(middle))
      last = middle;
    else
      first = middle + 1;
  }
  if (kept.empty())
    return -infinity;
  workLeft -= order->work;
  ReducedGraph left = restrict(graph, kept);
  std::vector<int> found;
  double value = eliminateAll(left.graph, price, order->in(left), found);
  if (value < upper)
    choice = left.expand(found);
  return std::min({upper, value, least + width});
}
