#pragma once
#include "passes/Planning/Search/PairwiseProblem.h"

#include <cstdint>
#include <utility>

namespace divisi::planning::test {

/// Numbers that are the same on every machine (splitmix64).
class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}
  int below(int limit) { return static_cast<int>(next() % limit); }
  double upTo(double limit) { return static_cast<double>(next() >> 11) / 9007199254740992.0 * limit; }

private:
  uint64_t next() {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  uint64_t state;
};

enum class Shape { Empty, Path, Tree, Star, Cycle, Clique, Grid, Sparse, Parallel, Pieces };
constexpr int shapes = 10;

/// A random problem of 4 to 8 variables with at most 4 strategies.
class Maker {
public:
  Maker(Shape shape, uint64_t seed) : random(seed), whole(random.below(3) == 0) {
    int size = 4 + random.below(5);
    for (int v = 0; v < size; ++v)
      addVariable();
    addEdges(shape, size);
  }

  PairwiseProblem problem;

private:
  double number(double limit) { return whole ? random.below(static_cast<int>(limit) + 1) : random.upTo(limit); }

  void addVariable() {
    PairwiseProblem::Variable &variable = problem.variables.emplace_back();
    variable.kind = random.below(4) - 1;
    int size = variable.kind == 0 ? 3 : 1 + random.below(4);
    bool weightless = random.below(6) == 0;
    for (int s = 0; s < size; ++s) {
      variable.cost.push_back(number(10));
      if (!weightless)
        variable.memory.push_back(number(10));
    }
  }

  void addEdge(int from, int to) {
    if (random.below(2))
      std::swap(from, to);
    int rows = static_cast<int>(problem.variables[from].cost.size());
    int columns = static_cast<int>(problem.variables[to].cost.size());
    for (int m = 0; m < static_cast<int>(problem.matrices.size()); ++m)
      if (problem.matrices[m].rows == rows && problem.matrices[m].columns == columns && random.below(3) == 0) {
        problem.edges.push_back({from, to, m});
        return;
      }
    PairwiseProblem::Matrix &matrix = problem.matrices.emplace_back(PairwiseProblem::Matrix{rows, columns, {}});
    for (int k = 0; k < rows * columns; ++k)
      matrix.entries.push_back(number(20));
    problem.edges.push_back({from, to, static_cast<int>(problem.matrices.size()) - 1});
  }

  void addEdges(Shape shape, int size) {
    for (int v = 1; v < size; ++v)
      switch (shape) {
      case Shape::Empty:
        break;
      case Shape::Path:
      case Shape::Cycle:
        addEdge(v - 1, v);
        break;
      case Shape::Tree:
        addEdge(random.below(v), v);
        break;
      case Shape::Star:
        addEdge(0, v);
        break;
      case Shape::Grid:
        if (v % 3)
          addEdge(v - 1, v);
        if (v >= 3)
          addEdge(v - 3, v);
        break;
      case Shape::Clique:
      case Shape::Sparse:
      case Shape::Parallel:
      case Shape::Pieces:
        for (int u = 0; u < v; ++u) {
          if (shape == Shape::Clique || (shape == Shape::Pieces ? u % 2 == v % 2 : random.below(5) < 2))
            addEdge(u, v);
          if (shape == Shape::Parallel && random.below(3) == 0)
            addEdge(u, v);
        }
      }
    if (shape == Shape::Cycle)
      addEdge(size - 1, 0);
    if (shape == Shape::Parallel)
      addEdge(1, 1);
  }

  Random random;
  bool whole; // whole numbers: many plans cost the same
};

} // namespace divisi::planning::test
