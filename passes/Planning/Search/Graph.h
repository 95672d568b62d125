#pragma once
#include "passes/Planning/Search/PairwiseProblem.h"

#include <cstddef>
#include <memory>

namespace divisi::planning {

/// A matrix whose rows are padded to whole vectors, so that loops over a row have no remainder.
struct Table {
  static constexpr int lanes = 4;
  Table(int rows, int columns)
      : rows(rows), columns(columns), stride((columns + lanes - 1) / lanes * lanes),
        entries(static_cast<size_t>(rows) * stride) {}
  double *row(int r) { return entries.data() + static_cast<size_t>(r) * stride; }
  const double *row(int r) const { return entries.data() + static_cast<size_t>(r) * stride; }

  int rows, columns, stride;
  std::vector<double> entries; // padding is 0
};

/// A matrix and its transpose, each with the least entry of every row.
struct TablePair {
  explicit TablePair(Table table);
  Table direct, flipped;
  std::vector<double> directLeast, flippedLeast;
};

/// The solvers' problem. Unless it is raw, there is at most one edge between two variables, `from` < `to`, and every
/// variable has at least two strategies.
struct Graph {
  struct Variable {
    std::vector<double> cost, memory; // microseconds and bytes by strategy
    std::vector<int> below, above;    // edges to variables with smaller and with greater numbers
    int size() const { return static_cast<int>(cost.size()); }
  };
  struct Edge {
    int from = 0, to = 0;
    std::shared_ptr<const TablePair> tables; // rows are strategies of `from`
  };

  double cost(const std::vector<int> &choice) const;
  double memory(const std::vector<int> &choice) const;
  /// Of the plan that has the most.
  double mostMemory() const;
  /// The number of entries of all edges' matrices; the time of a pass over the graph is proportional to it.
  double entries() const;

  std::vector<Variable> variables;
  std::vector<Edge> edges;
  double fixedCost = 0, fixedMemory = 0; // of variables that were folded away
};

/// The problem without simplification: with parallel edges, loops and variables of one strategy.
Graph rawGraph(const PairwiseProblem &problem);

/// A smaller graph, and the map from its plans to plans of the larger one.
struct ReducedGraph {
  std::vector<int> expand(const std::vector<int> &choice) const;

  Graph graph;
  std::vector<int> variable;                   // by larger variable: its representative; -1: one strategy is left
  std::vector<std::vector<int>> strategies;    // by larger variable, by strategy of the smaller one
  std::vector<std::pair<int, int>> edgeOrigin; // by smaller edge: a larger edge, the number of larger edges
};

/// Keeps only some strategies of every variable, in increasing order (`kept`, of the leaders), and ties variables with
/// a common leader: they choose the same strategy. A leader leads itself. Edges between two variables are summed into
/// one, and variables with one strategy are folded into their neighbours.
ReducedGraph reduce(const Graph &graph, const std::vector<int> &leader, const std::vector<std::vector<int>> &kept);
/// The same without leaders.
ReducedGraph restrict(const Graph &graph, const std::vector<std::vector<int>> &kept);
/// The graph itself (not a raw one), as a reduction that leaves all.
ReducedGraph unreduced(const Graph &graph);
/// All strategies of every variable.
std::vector<std::vector<int>> allStrategies(const Graph &graph);

} // namespace divisi::planning
