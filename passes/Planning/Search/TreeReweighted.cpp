#include "passes/Planning/Search/TreeReweighted.h"

#include <algorithm>
#include <map>
#include <utility>

using namespace divisi;
using namespace divisi::planning;

namespace {

/// The share of a variable's belief that each of its edges to one side gets.
double shareOfEdge(const Graph::Variable &variable) {
  return 1.0 / std::max<size_t>(1, std::max(variable.below.size(), variable.above.size()));
}

} // namespace

TreeReweighted::TreeReweighted(const Graph &graph) : graph(graph) {
  size_t strategies = 0, aheadSize = 0, backSize = 0;
  for (const Graph::Variable &variable : graph.variables) {
    variableStart.push_back(strategies);
    strategies += variable.size();
  }
  for (const Graph::Edge &edge : graph.edges) {
    aheadStart.push_back(aheadSize);
    backStart.push_back(backSize);
    aheadSize += graph.variables[edge.to].size();
    backSize += graph.variables[edge.from].size();
  }
  ahead.resize(aheadSize);
  back.resize(backSize);
  reduced.resize(strategies);
  boundOfRest.resize(graph.variables.size() + 1);
  plan.resize(graph.variables.size());
}

void TreeReweighted::adopt(const TreeReweighted &larger, const ReducedGraph &reduction) {
  std::vector<const std::vector<int> *> kept(graph.variables.size());
  for (size_t v = 0; v < reduction.variable.size(); ++v)
    if (reduction.variable[v] >= 0)
      kept[reduction.variable[v]] = &reduction.strategies[v];
  for (size_t e = 0; e < graph.edges.size(); ++e) {
    int origin = reduction.edgeOrigin[e].first;
    const auto &from = *kept[graph.edges[e].from], &to = *kept[graph.edges[e].to];
    for (size_t s = 0; s < from.size(); ++s)
      back[backStart[e] + s] = larger.back[larger.backStart[origin] + from[s]];
    for (size_t s = 0; s < to.size(); ++s)
      ahead[aheadStart[e] + s] = larger.ahead[larger.aheadStart[origin] + to[s]];
  }
}

void TreeReweighted::spread(const TreeReweighted &tied, const std::vector<int> &variable) {
  std::map<std::pair<int, int>, int> tiedEdge;
  for (int e = 0; e < static_cast<int>(tied.graph.edges.size()); ++e)
    tiedEdge[{tied.graph.edges[e].from, tied.graph.edges[e].to}] = e;
  std::vector<int> source(graph.edges.size(), -1), count(tied.graph.edges.size());
  for (size_t e = 0; e < graph.edges.size(); ++e) {
    auto ends = std::minmax(variable[graph.edges[e].from], variable[graph.edges[e].to]);
    if (auto at = tiedEdge.find(ends); at != tiedEdge.end())
      ++count[source[e] = at->second];
  }
  for (size_t e = 0; e < graph.edges.size(); ++e) {
    if (source[e] < 0)
      continue;
    int from = variable[graph.edges[e].from], to = variable[graph.edges[e].to];
    const double *forth = &tied.ahead[tied.aheadStart[source[e]]], *home = &tied.back[tied.backStart[source[e]]];
    if (from > to)
      std::swap(forth, home);
    for (int s = 0; s < graph.variables[graph.edges[e].to].size(); ++s)
      ahead[aheadStart[e] + s] = forth[s] / count[source[e]];
    for (int s = 0; s < graph.variables[graph.edges[e].from].size(); ++s)
      back[backStart[e] + s] = home[s] / count[source[e]];
  }
}

void TreeReweighted::round(double price) {
  forward(price);
  backward(price);
}

/// The sum of cost, price x memory and all messages into a variable.
void TreeReweighted::gather(int variable, double price) {
  const Graph::Variable &at = graph.variables[variable];
  local.resize(at.size());
  for (int s = 0; s < at.size(); ++s)
    local[s] = at.cost[s] + price * at.memory[s];
  for (int e : at.above)
    add(local, &back[backStart[e]]);
  belief = local;
  for (int e : at.below)
    add(belief, &ahead[aheadStart[e]]);
}

/// Sends `belief` along an edge. The message is normalised to a least entry of 0; the least entry before that is
/// returned.
double TreeReweighted::send(int edge, bool up, double share) {
  const TablePair &tables = *graph.edges[edge].tables;
  double *forth = &ahead[aheadStart[edge]], *home = &back[backStart[edge]];
  const double *received = up ? home : forth;
  weight.resize(belief.size());
  for (size_t s = 0; s < belief.size(); ++s)
    weight[s] = share * belief[s] - received[s];
  return up ? minPlus(weight.data(), tables.direct, tables.directLeast, forth)
            : minPlus(weight.data(), tables.flipped, tables.flippedLeast, home);
}

void TreeReweighted::forward(double price) {
  double bound = graph.fixedCost + price * graph.fixedMemory;
  for (int v = 0; v < static_cast<int>(graph.variables.size()); ++v) {
    const Graph::Variable &at = graph.variables[v];
    gather(v, price);
    // The plan fixes the strategies of smaller neighbours; greater ones count by their messages.
    for (int e : at.below)
      add(local, graph.edges[e].tables->direct.row(plan[graph.edges[e].from]));
    plan[v] = static_cast<int>(std::min_element(local.begin(), local.end()) - local.begin());
    double least = leastOf(belief.data(), at.size());
    bound += least;
    for (double &b : belief)
      b -= least;
    for (int e : at.above)
      bound += send(e, true, shareOfEdge(at));
  }
  forwardBound = bound;
}

void TreeReweighted::backward(double price) {
  double bound = boundOfRest.back() = 0;
  for (int v = static_cast<int>(graph.variables.size()) - 1; v >= 0; --v) {
    const Graph::Variable &at = graph.variables[v];
    gather(v, price);
    double least = leastOf(belief.data(), at.size());
    bound += least;
    for (size_t s = 0; s < belief.size(); ++s)
      reduced[variableStart[v] + s] = belief[s] -= least;
    for (int e : at.below)
      bound += send(e, false, shareOfEdge(at));
    boundOfRest[v] = bound;
  }
  lowerBound = bound + graph.fixedCost + price * graph.fixedMemory;
}
