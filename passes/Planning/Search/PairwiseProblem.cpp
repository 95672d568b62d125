#include "passes/Planning/Search/PairwiseProblem.h"

#include <cstddef>

using namespace divisi;
using namespace divisi::planning;

double planning::costOf(const PairwiseProblem &problem, const std::vector<int> &choice) {
  double cost = 0;
  for (size_t v = 0; v < problem.variables.size(); ++v)
    cost += problem.variables[v].cost[choice[v]];
  for (const PairwiseProblem::Edge &edge : problem.edges) {
    const PairwiseProblem::Matrix &matrix = problem.matrices[edge.matrix];
    cost += matrix.entries[static_cast<size_t>(choice[edge.from]) * matrix.columns + choice[edge.to]];
  }
  return cost;
}

double planning::memoryOf(const PairwiseProblem &problem, const std::vector<int> &choice) {
  double memory = 0;
  for (size_t v = 0; v < problem.variables.size(); ++v)
    if (!problem.variables[v].memory.empty())
      memory += problem.variables[v].memory[choice[v]];
  return memory;
}
