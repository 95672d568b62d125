#include "passes/Planning/Search/LocalMoves.h"

#include "passes/Planning/Search/MinPlus.h"

#include <algorithm>
#include <cmath>

using namespace divisi;
using namespace divisi::planning;

namespace {

constexpr int mostSweeps = 30;

class Moves {
public:
  Moves(const Graph &graph, std::vector<int> &choice, double price, double capacity)
      : graph(graph), choice(choice), price(price), capacity(capacity), memory(graph.memory(choice)) {}

  bool sweepSingles() {
    bool changed = false;
    for (int v = 0; v < static_cast<int>(graph.variables.size()); ++v) {
      local(v, -1, first);
      const std::vector<double> &bytes = graph.variables[v].memory;
      int best = choice[v];
      for (int s = 0; s < static_cast<int>(first.size()); ++s)
        if (less(first[s], first[best]) && withinCapacity(memory - bytes[choice[v]] + bytes[s], capacity))
          best = s;
      changed |= best != choice[v];
      set(v, best);
    }
    return changed;
  }

  bool sweepPairs() {
    bool changed = false;
    for (int e = 0; e < static_cast<int>(graph.edges.size()); ++e) {
      const Graph::Edge &edge = graph.edges[e];
      local(edge.from, e, first);
      local(edge.to, e, second);
      const auto &fromBytes = graph.variables[edge.from].memory, &toBytes = graph.variables[edge.to].memory;
      double others = memory - fromBytes[choice[edge.from]] - toBytes[choice[edge.to]];
      int from = choice[edge.from], to = choice[edge.to];
      double least = first[from] + second[to] + edge.tables->direct.row(from)[to];
      double leastSecond = *std::min_element(second.begin(), second.end());
      for (int s = 0; s < static_cast<int>(first.size()); ++s) {
        if (!less(first[s] + leastSecond + edge.tables->directLeast[s], least))
          continue;
        const double *row = edge.tables->direct.row(s);
        for (int t = 0; t < static_cast<int>(second.size()); ++t)
          if (less(first[s] + second[t] + row[t], least) &&
              withinCapacity(others + fromBytes[s] + toBytes[t], capacity)) {
            least = first[s] + second[t] + row[t];
            from = s;
            to = t;
          }
      }
      changed |= from != choice[edge.from] || to != choice[edge.to];
      set(edge.from, from);
      set(edge.to, to);
    }
    return changed;
  }

private:
  static bool less(double a, double b) { return a < b - 1e-9 * std::abs(b); }

  /// By strategy of a variable: its cost and that of all its edges but one.
  void local(int variable, int except, std::vector<double> &result) const {
    const Graph::Variable &at = graph.variables[variable];
    result.resize(at.size());
    for (int s = 0; s < at.size(); ++s)
      result[s] = at.cost[s] + price * at.memory[s];
    for (int e : at.below)
      if (e != except)
        add(result, graph.edges[e].tables->direct.row(choice[graph.edges[e].from]));
    for (int e : at.above)
      if (e != except)
        add(result, graph.edges[e].tables->flipped.row(choice[graph.edges[e].to]));
  }

  void set(int variable, int strategy) {
    const std::vector<double> &bytes = graph.variables[variable].memory;
    memory += bytes[strategy] - bytes[choice[variable]];
    choice[variable] = strategy;
  }

  const Graph &graph;
  std::vector<int> &choice;
  double price, capacity, memory;
  std::vector<double> first, second;
};

} // namespace

void planning::improve(const Graph &graph, std::vector<int> &choice, double price, double capacity, bool pairs) {
  Moves moves(graph, choice, price, capacity);
  for (int sweep = 0; sweep < mostSweeps; ++sweep)
    if (!moves.sweepSingles() && !(pairs && moves.sweepPairs()))
      return;
}

std::vector<int> planning::mix(const Graph &graph, const std::vector<int> &within, const std::vector<int> &beyond,
                               double capacity) {
  struct Component {
    std::vector<int> variables;
    double memory = 0;
  };
  std::vector<Component> components;
  std::vector<bool> seen(within.size());
  for (int root = 0; root < static_cast<int>(within.size()); ++root) {
    if (seen[root] || within[root] == beyond[root])
      continue;
    Component &component = components.emplace_back();
    component.variables.push_back(root);
    seen[root] = true;
    auto reach = [&](int v) {
      if (!seen[v] && within[v] != beyond[v])
        component.variables.push_back(v);
      seen[v] = true;
    };
    for (size_t k = 0; k < component.variables.size(); ++k) {
      int v = component.variables[k];
      component.memory += graph.variables[v].memory[beyond[v]] - graph.variables[v].memory[within[v]];
      for (int e : graph.variables[v].below)
        reach(graph.edges[e].from);
      for (int e : graph.variables[v].above)
        reach(graph.edges[e].to);
    }
  }
  std::stable_sort(components.begin(), components.end(),
                   [](const Component &a, const Component &b) { return a.memory > b.memory; });
  std::vector<int> result = within;
  double cost = graph.cost(result), memory = graph.memory(result);
  for (const Component &component : components) {
    if (!withinCapacity(memory + component.memory, capacity))
      continue;
    std::vector<int> trial = result;
    for (int v : component.variables)
      trial[v] = beyond[v];
    if (double trialCost = graph.cost(trial); trialCost < cost) {
      result = std::move(trial);
      cost = trialCost;
      memory += component.memory;
    }
  }
  return result;
}
