#pragma once

#include <limits>
#include <vector>

namespace divisi::planning {

/// One strategy for each variable, costs of single strategies and of pairs, and one capacity of memory. The problem is
/// to find the smallest sum of costs whose sum of memories is within the capacity.
struct PairwiseProblem {
  struct Variable {
    std::vector<double> cost;   // microseconds by strategy, finite, at least one
    std::vector<double> memory; // bytes by strategy; empty: all 0
    int kind = -1;              // variables of one kind >= 0 may be tied: they have the same strategies
  };
  /// Several edges may join one pair of variables, in either direction: their matrices add up.
  struct Edge {
    int from = 0, to = 0;
    int matrix = 0; // rows are strategies of `from`, columns of `to`
  };
  struct Matrix {
    int rows = 0, columns = 0;
    std::vector<double> entries; // microseconds, row by row, finite
  };

  std::vector<Variable> variables;
  std::vector<Edge> edges;
  std::vector<Matrix> matrices;                              // shared by many edges
  double capacity = std::numeric_limits<double>::infinity(); // bytes
};

/// The cost in microseconds and the memory in bytes of a plan, given as one strategy for each variable.
double costOf(const PairwiseProblem &problem, const std::vector<int> &choice);
double memoryOf(const PairwiseProblem &problem, const std::vector<int> &choice);

/// Whether the memory is within the capacity, up to rounding (fractions of bytes are summed in different orders).
inline bool withinCapacity(double memory, double capacity) { return memory <= capacity + 1e-12 * capacity; }

} // namespace divisi::planning
