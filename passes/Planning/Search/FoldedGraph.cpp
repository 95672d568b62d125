#include "passes/Planning/Search/FoldedGraph.h"

#include <algorithm>
#include <map>

using namespace divisi::planning;

namespace {

/// A variable between two others is eliminated if their new edge has at most n more entries than both old ones: an edge
/// takes as much time of its own.
constexpr double mostGrowth = 300;
/// The sums that one elimination may take.
constexpr double mostSums = 1e6;

bool isFlat(const std::vector<double> &memory) {
  return std::all_of(memory.begin(), memory.end(), [&](double bytes) { return bytes == memory[0]; });
}

} // namespace

/// Eliminates variables from a graph whose edges it holds by neighbour.
class FoldedGraph::Builder {
public:
  Builder(const Graph &whole, bool roomy, FoldedGraph &result) : whole(whole), result(result), left(whole.variables) {
    edges.resize(left.size());
    for (const Graph::Edge &edge : whole.edges)
      edges[edge.from][edge.to] = edges[edge.to][edge.from] = edge.tables;
    for (const Graph::Variable &variable : left)
      mayGo.push_back(roomy || isFlat(variable.memory));
  }

  void run() {
    Graph &rest = result.rest;
    rest.fixedCost = whole.fixedCost;
    rest.fixedMemory = whole.fixedMemory;
    std::vector<int> waiting;
    for (int v = static_cast<int>(left.size()) - 1; v >= 0; --v)
      waiting.push_back(v);
    while (!waiting.empty()) {
      const int v = waiting.back();
      waiting.pop_back();
      if (!isCheap(v))
        continue;
      mayGo[v] = false;
      eliminate(v);
      const std::vector<Side> &sides = result.eliminated.back().sides;
      for (const Side &side : sides)
        waiting.push_back(side.neighbour);
      if (sides.size() == 2) // others between the two no longer need a new edge
        for (auto &[other, tables] : edges[sides[0].neighbour])
          waiting.push_back(other);
    }
    number();
  }

private:
  bool isCheap(int v) const {
    if (!mayGo[v] || edges[v].size() > 2)
      return false;
    if (edges[v].size() < 2)
      return true;
    const auto [a, b] = std::pair(edges[v].begin()->first, edges[v].rbegin()->first);
    const double own = left[v].size(), first = left[a].size(), second = left[b].size();
    return own * first * second <= mostSums &&
           (edges[a].count(b) || first * second <= own * (first + second) + mostGrowth);
  }

  /// An edge's rows are strategies of the variable with the smaller number.
  static std::shared_ptr<const Table> rowsOf(int neighbour, int v, const std::shared_ptr<const TablePair> &tables) {
    return {tables, neighbour < v ? &tables->direct : &tables->flipped};
  }

  void eliminate(int v) {
    Eliminated &gone = result.eliminated.emplace_back(Eliminated{v, std::move(left[v].cost), {}});
    Graph &rest = result.rest;
    rest.fixedMemory += *std::max_element(left[v].memory.begin(), left[v].memory.end());
    for (auto &[neighbour, tables] : edges[v]) {
      gone.sides.push_back({neighbour, rowsOf(neighbour, v, tables)});
      edges[neighbour].erase(v);
    }
    edges[v].clear();
    if (gone.sides.empty())
      rest.fixedCost += *std::min_element(gone.cost.begin(), gone.cost.end());
    else if (gone.sides.size() == 1)
      addToNeighbour(gone);
    else
      join(gone);
  }

  void addToNeighbour(const Eliminated &gone) {
    const Table &table = *gone.sides[0].rows;
    std::vector<double> &cost = left[gone.sides[0].neighbour].cost;
    for (int r = 0; r < table.rows; ++r) {
      const double *row = table.row(r);
      double least = gone.cost[0] + row[0];
      for (int s = 1; s < table.columns; ++s)
        least = std::min(least, gone.cost[s] + row[s]);
      cost[r] += least;
    }
  }

  void join(const Eliminated &gone) {
    const Side &a = gone.sides[0], &b = gone.sides[1]; // in the order of their numbers
    Table sums(a.rows->rows, b.rows->rows);
    std::vector<double> base(gone.cost.size());
    for (int r = 0; r < sums.rows; ++r) {
      const double *first = a.rows->row(r);
      for (size_t s = 0; s < base.size(); ++s)
        base[s] = gone.cost[s] + first[s];
      for (int c = 0; c < sums.columns; ++c) {
        const double *second = b.rows->row(c);
        double least = base[0] + second[0];
        for (size_t s = 1; s < base.size(); ++s)
          least = std::min(least, base[s] + second[s]);
        sums.row(r)[c] = least;
      }
    }
    auto &tables = edges[a.neighbour][b.neighbour];
    if (tables)
      for (size_t i = 0; i < sums.entries.size(); ++i)
        sums.entries[i] += tables->direct.entries[i];
    tables = std::make_shared<const TablePair>(std::move(sums));
    edges[b.neighbour][a.neighbour] = tables;
  }

  /// Makes the graph of what is left.
  void number() {
    Graph &rest = result.rest;
    result.numbers.assign(left.size(), 0);
    for (const Eliminated &gone : result.eliminated)
      result.numbers[gone.variable] = -1;
    for (size_t v = 0; v < left.size(); ++v)
      if (result.numbers[v] >= 0) {
        result.numbers[v] = static_cast<int>(rest.variables.size());
        rest.variables.push_back({std::move(left[v].cost), std::move(left[v].memory), {}, {}});
      }
    for (int v = 0; v < static_cast<int>(left.size()); ++v)
      for (auto &[neighbour, tables] : edges[v]) {
        if (neighbour < v)
          continue;
        const int from = result.numbers[v], to = result.numbers[neighbour], id = static_cast<int>(rest.edges.size());
        rest.edges.push_back({from, to, tables});
        rest.variables[from].above.push_back(id);
        rest.variables[to].below.push_back(id);
      }
  }

  const Graph &whole;
  FoldedGraph &result;
  std::vector<Graph::Variable> left;
  std::vector<std::map<int, std::shared_ptr<const TablePair>>> edges; // by variable and neighbour
  std::vector<bool> mayGo;
};

FoldedGraph::FoldedGraph(const Graph &graph, bool roomy) { Builder(graph, roomy, *this).run(); }

std::vector<int> FoldedGraph::expand(const std::vector<int> &choice) const {
  std::vector<int> result(numbers.size());
  for (size_t v = 0; v < numbers.size(); ++v)
    if (numbers[v] >= 0)
      result[v] = choice[numbers[v]];
  std::vector<double> sums;
  for (auto gone = eliminated.rbegin(); gone != eliminated.rend(); ++gone) {
    sums = gone->cost;
    for (const Side &side : gone->sides) {
      const double *row = side.rows->row(result[side.neighbour]);
      for (size_t s = 0; s < sums.size(); ++s)
        sums[s] += row[s];
    }
    result[gone->variable] = static_cast<int>(std::min_element(sums.begin(), sums.end()) - sums.begin());
  }
  return result;
}
