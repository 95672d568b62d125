#include "passes/Planning/Search/Graph.h"

#include "passes/Planning/Search/Numbers.h"

#include "llvm/ADT/DenseMap.h"

#include <algorithm>
#include <numeric>
#include <tuple>
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

ReducedGraph planning::unreduced(const Graph &graph) {
  ReducedGraph result{graph, std::vector<int>(graph.variables.size()), allStrategies(graph), {}};
  std::iota(result.variable.begin(), result.variable.end(), 0);
  for (int e = 0; e < static_cast<int>(graph.edges.size()); ++e)
    result.edgeOrigin.emplace_back(e, 1);
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
    for (const std::vector<int> &list : result.strategies) {
      listIds.push_back(lists.of(list));
      if (listOf.size() < lists.size())
        listOf.push_back(&list);
    }
  }

  /// Adds an edge of the larger graph whose ends remain as two different variables.
  void add(int e) {
    const Graph::Edge &edge = graph.edges[e];
    const auto [it, fresh] = tableIds.try_emplace(edge.tables.get(), static_cast<int>(tables.size()));
    if (fresh)
      tables.push_back(edge.tables);
    const int from = result.variable[edge.from], to = result.variable[edge.to];
    parts.push_back({std::min(from, to), std::max(from, to), it->second, from > to, e});
  }

  void finish() {
    Graph &smaller = result.graph;
    std::stable_sort(parts.begin(), parts.end());
    for (auto first = parts.begin(); first != parts.end();) {
      auto last = std::find_if(first, parts.end(), [&](const Part &p) { return p.from != first->from || p.to != first->to; });
      const int id = static_cast<int>(smaller.edges.size());
      smaller.edges.push_back({first->from, first->to, sumOf(Parts(&*first, last - first))});
      smaller.variables[first->from].above.push_back(id);
      smaller.variables[first->to].below.push_back(id);
      int earliest = first->edge;
      for (auto part = first; part != last; ++part)
        earliest = std::min(earliest, part->edge);
      result.edgeOrigin.emplace_back(earliest, static_cast<int>(last - first));
      first = last;
    }
  }

private:
  /// An edge of the larger graph.
  struct Part {
    int from, to; // in the smaller graph
    int table;
    bool flipped;
    int edge;
    bool operator<(const Part &other) const {
      return std::tie(from, to, table, flipped) < std::tie(other.from, other.to, other.table, other.flipped);
    }
  };
  using Parts = llvm::ArrayRef<Part>;

  std::shared_ptr<const TablePair> sumOf(Parts sum) {
    const Graph::Edge &edge = graph.edges[sum[0].edge];
    std::pair<int, int> ends(listIds[edge.from], listIds[edge.to]);
    if (sum[0].flipped)
      std::swap(ends.first, ends.second);
    std::vector<int> text = {ends.first, ends.second};
    for (const Part &part : sum)
      text.push_back(2 * part.table + part.flipped);
    const int number = texts.of(text);
    if (number == static_cast<int>(made.size()))
      made.push_back(make(sum, *listOf[ends.first], *listOf[ends.second]));
    return made[number];
  }

  std::shared_ptr<const TablePair> make(Parts sum, const std::vector<int> &rows, const std::vector<int> &columns) const {
    const auto &shared = tables[sum[0].table];
    if (sum.size() == 1 && !sum[0].flipped && static_cast<int>(rows.size()) == shared->direct.rows &&
        static_cast<int>(columns.size()) == shared->direct.columns)
      return shared;
    Table table(static_cast<int>(rows.size()), static_cast<int>(columns.size()));
    for (size_t i = 0, count = 1; i < sum.size(); i += count) {
      for (count = 1; i + count < sum.size() && !(sum[i] < sum[i + count]);)
        ++count;
      const TablePair &pair = *tables[sum[i].table];
      const Table &source = sum[i].flipped ? pair.flipped : pair.direct;
      for (size_t r = 0; r < rows.size(); ++r) {
        const double *in = source.row(rows[r]);
        double *out = table.row(static_cast<int>(r));
        for (size_t c = 0; c < columns.size(); ++c)
          out[c] += static_cast<double>(count) * in[columns[c]];
      }
    }
    return std::make_shared<const TablePair>(std::move(table));
  }

  const Graph &graph;
  ReducedGraph &result;
  std::vector<Part> parts;
  llvm::DenseMap<const TablePair *, int> tableIds;
  std::vector<std::shared_ptr<const TablePair>> tables; // by number
  Numbers<std::vector<int>> lists, texts;               // of remaining strategies; of sums
  std::vector<int> listIds;                             // by larger variable
  std::vector<const std::vector<int> *> listOf;         // by number of a list
  std::vector<std::shared_ptr<const TablePair>> made;   // by number of a text
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
