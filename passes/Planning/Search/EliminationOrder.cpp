#include "passes/Planning/Search/EliminationOrder.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>

using namespace divisi::planning;

namespace {

using Neighbours = std::vector<std::vector<int>>; // sorted

bool insert(std::vector<int> &list, int item) {
  auto at = std::lower_bound(list.begin(), list.end(), item);
  if (at != list.end() && *at == item)
    return false;
  list.insert(at, item);
  return true;
}

/// Variables with more neighbours than this are not examined pair by pair; they wait until most of the neighbours are
/// eliminated.
constexpr size_t mostNeighbours = 100;

/// Min-fill takes ten times as long as min-weight, and mostly finds an order that is not much better: it is tried if
/// min-weight needs at most n times the work that is allowed, and more than this share of it.
constexpr double worthFilling = 8, leastFilled = 0.25;

/// In place of the score of a variable that has been eliminated: no entry has it.
constexpr double eliminated = std::numeric_limits<double>::quiet_NaN();

/// Keeps one of each item that occurs more than once.
void keepRepeated(std::vector<int> &items) {
  std::sort(items.begin(), items.end());
  size_t kept = 0;
  for (size_t i = 1; i < items.size(); ++i)
    if (items[i] == items[i - 1] && (kept == 0 || items[kept - 1] != items[i]))
      items[kept++] = items[i];
  items.resize(kept);
}

/// The number of pairs of neighbours without an edge.
double fillOf(const std::vector<int> &around, const Neighbours &neighbours) {
  if (around.size() > mostNeighbours)
    return static_cast<double>(around.size()) * static_cast<double>(around.size());
  double fill = 0;
  for (size_t a = 0; a < around.size(); ++a) {
    const std::vector<int> &joined = neighbours[around[a]];
    for (size_t b = a + 1; b < around.size(); ++b)
      if (!std::binary_search(joined.begin(), joined.end(), around[b]))
        ++fill;
  }
  return fill;
}

} // namespace

EliminationOrder EliminationOrder::best(const Graph &graph, const std::vector<int> &sizes, double mostWork) {
  EliminationOrder weight(graph, sizes, Rule::Weight, mostWork * worthFilling);
  if (weight.work > mostWork * worthFilling || weight.work < mostWork * leastFilled)
    return weight;
  EliminationOrder fill(graph, sizes, Rule::Fill, std::min(mostWork, weight.work));
  return weight.work < fill.work ? weight : fill;
}

EliminationOrder EliminationOrder::in(const ReducedGraph &smaller) const {
  EliminationOrder result;
  result.position.resize(smaller.graph.variables.size());
  result.scope.resize(smaller.graph.variables.size());
  for (int v : order) {
    const int to = smaller.variable[v];
    result.position[to] = static_cast<int>(result.order.size());
    result.order.push_back(to);
    for (int a : scope[v])
      result.scope[to].push_back(smaller.variable[a]);
  }
  result.work = work;
  result.storage = storage;
  return result;
}

EliminationOrder::EliminationOrder(const Graph &graph, const std::vector<int> &sizes, Rule rule, double mostWork)
    : position(sizes.size()), scope(sizes.size()) {
  Neighbours neighbours(sizes.size());
  for (const Graph::Edge &edge : graph.edges)
    if (sizes[edge.from] > 1 && sizes[edge.to] > 1) {
      insert(neighbours[edge.from], edge.to);
      insert(neighbours[edge.to], edge.from);
    }
  auto score = [&](int v) {
    const std::vector<int> &around = neighbours[v];
    double table = 1;
    for (int a : around)
      table *= sizes[a];
    if (rule == Rule::Weight)
      return table;
    return around.size() <= 1 ? -1 : fillOf(around, neighbours) + 1e-9 * std::min(table, 1e8);
  };
  using Entry = std::pair<double, int>; // of a variable, the entry with its last score counts
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  std::vector<double> scores(sizes.size());
  for (int v = 0; v < static_cast<int>(sizes.size()); ++v)
    if (sizes[v] > 1)
      queue.emplace(scores[v] = score(v), v);
  std::vector<int> changed;
  while (!queue.empty() && work <= mostWork) {
    auto [least, v] = queue.top();
    queue.pop();
    if (least != scores[v])
      continue;
    scores[v] = eliminated;
    position[v] = static_cast<int>(order.size());
    order.push_back(v);
    scope[v] = std::move(neighbours[v]);
    neighbours[v].clear();
    double table = 1;
    bool joined = false;
    for (int a : scope[v]) {
      table *= sizes[a];
      std::vector<int> &list = neighbours[a];
      list.erase(std::lower_bound(list.begin(), list.end(), v));
      for (int b : scope[v])
        if (a != b)
          joined |= insert(list, b);
    }
    changed.clear();
    if (joined && rule == Rule::Fill) { // an edge that is new counts for those next to both of its ends
      for (int a : scope[v])
        changed.insert(changed.end(), neighbours[a].begin(), neighbours[a].end());
      keepRepeated(changed);
    }
    changed.insert(changed.end(), scope[v].begin(), scope[v].end());
    std::sort(changed.begin(), changed.end());
    changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
    for (int a : changed)
      if (double now = score(a); now != scores[a])
        queue.emplace(scores[a] = now, a);
    storage += table;
    work += table * sizes[v];
  }
  for (auto &list : scope)
    std::sort(list.begin(), list.end(), [&](int a, int b) { return position[a] > position[b]; });
}
