#include "passes/Planning/Search/Graph.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

using namespace divisi;
using namespace divisi::planning;

namespace {

std::vector<double> leastByRow(const Table &table) {
  std::vector<double> least(table.rows);
  for (int r = 0; r < table.rows; ++r)
    least[r] = *std::min_element(table.row(r), table.row(r) + table.columns);
  return least;
}

Table flip(const Table &table) {
  Table result(table.columns, table.rows);
  for (int r = 0; r < table.rows; ++r)
    for (int c = 0; c < table.columns; ++c)
      result.row(c)[r] = table.row(r)[c];
  return result;
}

} // namespace

TablePair::TablePair(Table table)
    : direct(std::move(table)), flipped(flip(direct)), directLeast(leastByRow(direct)),
      flippedLeast(leastByRow(flipped)) {}

double Graph::cost(const std::vector<int> &choice) const {
  double result = fixedCost;
  for (size_t v = 0; v < variables.size(); ++v)
    result += variables[v].cost[choice[v]];
  for (const Edge &edge : edges)
    result += edge.tables->direct.row(choice[edge.from])[choice[edge.to]];
  return result;
}

double Graph::memory(const std::vector<int> &choice) const {
  double result = fixedMemory;
  for (size_t v = 0; v < variables.size(); ++v)
    result += variables[v].memory[choice[v]];
  return result;
}

double Graph::mostMemory() const {
  double result = fixedMemory;
  for (const Variable &variable : variables)
    result += *std::max_element(variable.memory.begin(), variable.memory.end());
  return result;
}

double Graph::entries() const {
  double result = 0;
  for (const Edge &edge : edges)
    result += static_cast<double>(variables[edge.from].size()) * variables[edge.to].size();
  return result;
}

Graph planning::rawGraph(const PairwiseProblem &problem) {
  Graph graph;
  for (const PairwiseProblem::Variable &variable : problem.variables) {
    graph.variables.push_back({variable.cost, variable.memory, {}, {}});
    graph.variables.back().memory.resize(variable.cost.size());
  }
  std::vector<std::shared_ptr<const TablePair>> tables;
  for (const PairwiseProblem::Matrix &matrix : problem.matrices) {
    Table table(matrix.rows, matrix.columns);
    for (int r = 0; r < matrix.rows; ++r)
      std::copy_n(matrix.entries.data() + static_cast<size_t>(r) * matrix.columns, matrix.columns, table.row(r));
    tables.push_back(std::make_shared<const TablePair>(std::move(table)));
  }
  for (const PairwiseProblem::Edge &edge : problem.edges)
    graph.edges.push_back({edge.from, edge.to, tables[edge.matrix]});
  return graph;
}

std::vector<std::vector<int>> planning::allStrategies(const Graph &graph) {
  std::vector<std::vector<int>> kept;
  for (const Graph::Variable &variable : graph.variables) {
    kept.emplace_back(variable.size());
    std::iota(kept.back().begin(), kept.back().end(), 0);
  }
  return kept;
}

std::vector<int> ReducedGraph::expand(const std::vector<int> &choice) const {
  std::vector<int> result(variable.size());
  for (size_t v = 0; v < variable.size(); ++v)
    result[v] = strategies[v][variable[v] < 0 ? 0 : choice[variable[v]]];
  return result;
}

ReducedGraph planning::restrict(const Graph &graph, const std::vector<std::vector<int>> &kept) {
  std::vector<int> leader(graph.variables.size());
  std::iota(leader.begin(), leader.end(), 0);
  return reduce(graph, leader, kept);
}

namespace {

/// Sums the edges between any two variables of the smaller graph. Equal sums are computed only once.
class EdgeMerger {
public:
  EdgeMerger(const Graph &graph, ReducedGraph &result) : graph(graph), result(result) {
    for (const Graph::Edge &edge : graph.edges)
      number(tableIds, edge.tables.get());
    for (const auto &list : result.strategies)
      listIds.push_back(number(lists, list));
  }

  /// Adds an edge of the larger graph whose ends remain as two different variables.
  void add(int e) {
    const Graph::Edge &edge = graph.edges[e];
    int from = result.variable[edge.from], to = result.variable[edge.to];
    bool flipped = from > to;
    Sum &sum = sums[{std::min(from, to), std::max(from, to)}];
    if (sum.parts.empty())
      sum.edge = e;
    ++sum.parts[{number(tableIds, edge.tables.get()), flipped}];
    ++sum.count;
    sum.lists = {listIds[edge.from], listIds[edge.to]};
    if (flipped)
      std::swap(sum.lists.first, sum.lists.second);
    sample.emplace(std::make_pair(tableIds.at(edge.tables.get()), flipped), e);
  }

  void finish() {
    Graph &smaller = result.graph;
    for (const auto &[ends, sum] : sums) {
      auto &tables = made[{sum.parts, sum.lists}];
      if (!tables)
        tables = make(sum);
      int id = static_cast<int>(smaller.edges.size());
      smaller.edges.push_back({ends.first, ends.second, tables});
      smaller.variables[ends.first].above.push_back(id);
      smaller.variables[ends.second].below.push_back(id);
      result.edgeOrigin.emplace_back(sum.edge, sum.count);
    }
  }

private:
  using Parts = std::map<std::pair<int, bool>, int>; // how often each table is added, direct or flipped
  struct Sum {
    Parts parts;
    std::pair<int, int> lists; // remaining strategies of both ends
    int edge = 0, count = 0;
  };

  template <typename Key> static int number(std::map<Key, int> &ids, const Key &key) {
    return ids.emplace(key, static_cast<int>(ids.size())).first->second;
  }

  std::shared_ptr<const TablePair> make(const Sum &sum) const {
    const auto &rows = *listAt(sum.lists.first), &columns = *listAt(sum.lists.second);
    const auto &[first, times] = *sum.parts.begin();
    const auto &shared = graph.edges[sample.at(first)].tables;
    if (sum.parts.size() == 1 && times == 1 && !first.second && static_cast<int>(rows.size()) == shared->direct.rows &&
        static_cast<int>(columns.size()) == shared->direct.columns)
      return shared;
    Table table(static_cast<int>(rows.size()), static_cast<int>(columns.size()));
    for (const auto &[part, count] : sum.parts) {
      const TablePair &pair = *graph.edges[sample.at(part)].tables;
      const Table &source = part.second ? pair.flipped : pair.direct;
      for (size_t r = 0; r < rows.size(); ++r) {
        const double *in = source.row(rows[r]);
        double *out = table.row(static_cast<int>(r));
        for (size_t c = 0; c < columns.size(); ++c)
          out[c] += count * in[columns[c]];
      }
    }
    return std::make_shared<const TablePair>(std::move(table));
  }

  const std::vector<int> *listAt(int id) const {
    size_t v = std::find(listIds.begin(), listIds.end(), id) - listIds.begin();
    return &result.strategies[v];
  }

  const Graph &graph;
  ReducedGraph &result;
  std::map<const TablePair *, int> tableIds; // by first use; never iterated: keys are addresses
  std::map<std::vector<int>, int> lists;
  std::vector<int> listIds; // by larger variable
  std::map<std::pair<int, int>, Sum> sums;
  std::map<std::pair<int, bool>, int> sample; // an edge that has this table
  std::map<std::pair<Parts, std::pair<int, int>>, std::shared_ptr<const TablePair>> made;
};

} // namespace

ReducedGraph planning::reduce(const Graph &graph, const std::vector<int> &leader,
                              const std::vector<std::vector<int>> &kept) {
  ReducedGraph result;
  Graph &smaller = result.graph;
  smaller.fixedCost = graph.fixedCost;
  smaller.fixedMemory = graph.fixedMemory;
  int n = static_cast<int>(graph.variables.size());
  result.variable.assign(n, -1);
  result.strategies.resize(n);
  for (int v = 0; v < n; ++v)
    if (leader[v] == v && kept[v].size() > 1) {
      result.variable[v] = static_cast<int>(smaller.variables.size());
      smaller.variables.emplace_back();
      smaller.variables.back().cost.resize(kept[v].size());
      smaller.variables.back().memory.resize(kept[v].size());
    }
  for (int v = 0; v < n; ++v) {
    const std::vector<int> &list = result.strategies[v] = kept[leader[v]];
    int to = result.variable[v] = result.variable[leader[v]];
    for (size_t k = 0; k < list.size(); ++k) {
      (to < 0 ? smaller.fixedCost : smaller.variables[to].cost[k]) += graph.variables[v].cost[list[k]];
      (to < 0 ? smaller.fixedMemory : smaller.variables[to].memory[k]) += graph.variables[v].memory[list[k]];
    }
  }
  EdgeMerger merger(graph, result);
  for (int e = 0; e < static_cast<int>(graph.edges.size()); ++e) {
    const Graph::Edge &edge = graph.edges[e];
    const Table &table = edge.tables->direct;
    const auto &rows = result.strategies[edge.from], &columns = result.strategies[edge.to];
    int from = result.variable[edge.from], to = result.variable[edge.to];
    if (from >= 0 && to >= 0 && from != to)
      merger.add(e);
    else if (from < 0 && to < 0)
      smaller.fixedCost += table.row(rows[0])[columns[0]];
    else
      for (size_t k = 0; k < smaller.variables[std::max(from, to)].cost.size(); ++k)
        smaller.variables[std::max(from, to)].cost[k] += table.row(rows[from < 0 ? 0 : k])[columns[to < 0 ? 0 : k]];
  }
  merger.finish();
  return result;
}
