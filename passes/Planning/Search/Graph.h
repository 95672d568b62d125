#pragma once
#include "passes/Planning/Search/PairwiseProblem.h"

#include <cstddef>
#include <memory>

namespace divisi::planning {

/// A matrix whose rows are padded to whole vectors, so that loops over a row need no rest.
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

/// What the solvers work on. Unless it is a raw one: one edge at most between two variables, `from` < `to`, and every
/// variable has at least two strategies.
struct Graph {
  struct Variable {
    std::vector<double> cost, memory; // microseconds and bytes by strategy
    std::vector<int> below, above;    // edges to smaller and to greater variables
    int size() const { return static_cast<int>(cost.size()); }
  };
  struct Edge {
    int from = 0, to = 0;
    std::shared_ptr<const TablePair> tables; // rows are strategies of `from`
  };

  double cost(const std::vector<int> &choice) const;
  double memory(const std::vector<int> &choice) const;
  /// Entries of all edges' matrices: a pass over the graph takes time in proportion.
  double entries() const;

  std::vector<Variable> variables;
  std::vector<Edge> edges;
  double fixedCost = 0, fixedMemory = 0; // of what was folded away
};

/// The problem as it stands: parallel edges, loops and variables with one strategy are still there.
Graph rawGraph(const PairwiseProblem &problem);

/// A smaller graph, and how its plans read in the larger one.
struct Reduction {
  std::vector<int> expand(const std::vector<int> &choice) const;

  Graph graph;
  std::vector<int> variable;                // by larger variable: the one that stands for it; -1: one strategy is left
  std::vector<std::vector<int>> strategies; // by larger variable, by strategy of the smaller one
  std::vector<std::pair<int, int>> edgeOrigin; // by smaller edge: one larger edge and how many were added
};

/// Keeps of every variable only some strategies, in rising order (`kept`, read at the leaders), and gives variables one
/// leader in common: they choose alike. A leader leads itself. Edges between two variables become one, and variables
/// with one strategy are folded into their neighbours.
Reduction reduce(const Graph &graph, const std::vector<int> &leader, const std::vector<std::vector<int>> &kept);
/// The same without leaders.
Reduction restrict(const Graph &graph, const std::vector<std::vector<int>> &kept);
/// All strategies of every variable.
std::vector<std::vector<int>> allStrategies(const Graph &graph);

} // namespace divisi::planning
