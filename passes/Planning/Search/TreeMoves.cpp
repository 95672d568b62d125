#include "passes/Planning/Search/TreeMoves.h"

#include "passes/Planning/Search/MinPlus.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace divisi;
using namespace divisi::planning;

namespace {

constexpr int mostForests = 6;

class TreeMoves {
public:
  TreeMoves(const Graph &graph, std::vector<int> &choice, double price)
      : graph(graph), choice(choice), price(price), times(choice.size()), order(choice.size()),
        component(choice.size()), sums(choice.size()) {
    std::iota(order.begin(), order.end(), 0);
  }

  /// Whether the best strategies of another forest are cheaper.
  bool moveForest() {
    plant();
    for (auto v = visited.rbegin(); v != visited.rend(); ++v)
      gather(*v);
    bool changed = false;
    for (const Visit &visit : visited)
      changed |= choose(visit);
    return changed;
  }

private:
  struct Visit {
    int variable, edge; // to its parent; -1: a root
  };

  int find(int v) {
    while (component[v] != v)
      v = component[v] = component[component[v]];
    return v;
  }

  template <typename Function> void forEachEdge(int v, Function function) const {
    for (int e : graph.variables[v].below)
      function(e, graph.edges[e].from);
    for (int e : graph.variables[v].above)
      function(e, graph.edges[e].to);
  }

  /// Chooses the variables of a forest, parents before their children.
  void plant() {
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return times[a] < times[b]; });
    std::iota(component.begin(), component.end(), 0);
    member.assign(order.size(), false);
    asked.assign(order.size(), -1);
    for (int v : order) {
      bool closes = false; // a cycle
      forEachEdge(v, [&](int, int other) {
        if (member[other])
          closes |= std::exchange(asked[find(other)], v) == v;
      });
      if (closes)
        continue;
      member[v] = true;
      ++times[v];
      forEachEdge(v, [&](int, int other) {
        if (member[other])
          component[find(other)] = v;
      });
    }
    visited.clear();
    std::vector<bool> seen(order.size());
    for (int root = 0; root < static_cast<int>(order.size()); ++root) {
      if (!member[root] || seen[root])
        continue;
      seen[root] = true;
      size_t next = visited.size();
      for (visited.push_back({root, -1}); next < visited.size(); ++next)
        forEachEdge(visited[next].variable, [&](int e, int other) {
          if (member[other] && !seen[other]) {
            seen[other] = true;
            visited.push_back({other, e});
          }
        });
    }
    for (const Visit &visit : visited)
      sums[visit.variable].clear();
  }

  /// Adds what the variable costs with the others' choices to what its children cost, and sends the least sums to its parent.
  void gather(const Visit &visit) {
    const Graph::Variable &variable = graph.variables[visit.variable];
    std::vector<double> &sum = sums[visit.variable];
    sum.resize(variable.size());
    for (size_t s = 0; s < sum.size(); ++s)
      sum[s] += variable.cost[s] + price * variable.memory[s];
    forEachEdge(visit.variable, [&](int e, int other) {
      if (member[other])
        return;
      add(sum, rowOf(e, other));
    });
    if (visit.edge < 0)
      return;
    const Graph::Edge &edge = graph.edges[visit.edge];
    const bool up = edge.from == visit.variable;
    const Table &table = up ? edge.tables->direct : edge.tables->flipped;
    message.resize(table.columns);
    minPlus(sum.data(), table, up ? edge.tables->directLeast : edge.tables->flippedLeast, message.data());
    std::vector<double> &parent = sums[up ? edge.to : edge.from];
    parent.resize(table.columns);
    add(parent, message.data());
  }

  /// An edge's costs with the choice of one of its variables, by strategy of the other.
  const double *rowOf(int e, int chosen) const {
    const Graph::Edge &edge = graph.edges[e];
    return (edge.from == chosen ? edge.tables->direct : edge.tables->flipped).row(choice[chosen]);
  }

  bool choose(const Visit &visit) {
    std::vector<double> &sum = sums[visit.variable];
    if (visit.edge >= 0) {
      const Graph::Edge &edge = graph.edges[visit.edge];
      add(sum, rowOf(visit.edge, edge.from == visit.variable ? edge.to : edge.from));
    }
    int best = choice[visit.variable];
    for (int s = 0; s < static_cast<int>(sum.size()); ++s)
      if (sum[s] < sum[best] - 1e-9 * std::abs(sum[best]))
        best = s;
    return std::exchange(choice[visit.variable], best) != best;
  }

  const Graph &graph;
  std::vector<int> &choice;
  const double price;
  std::vector<int> times, order, component, asked; // by variable: forests it was in, and union and find of this one
  std::vector<bool> member;                        // of this forest
  std::vector<Visit> visited;
  std::vector<std::vector<double>> sums; // by variable and strategy
  std::vector<double> message;
  MinPlus minPlus;
};

} // namespace

void planning::improveByTrees(const Graph &graph, std::vector<int> &choice, double price) {
  TreeMoves moves(graph, choice, price);
  for (int forest = 0, idle = 0; forest < mostForests && idle < 2; ++forest)
    idle = moves.moveForest() ? 0 : idle + 1;
}
