#include "passes/Planning/Search/Enumeration.h"

#include <cstddef>

using namespace divisi;
using namespace divisi::planning;

/// Limit of the number of plans times the terms of their costs.
constexpr double mostTerms = 1e6;

bool planning::mayEnumerate(const PairwiseProblem &problem) {
  double terms = static_cast<double>(problem.variables.size() + problem.edges.size());
  for (const PairwiseProblem::Variable &variable : problem.variables)
    terms *= static_cast<double>(variable.cost.size());
  return terms <= mostTerms;
}

std::vector<int> planning::enumerate(const PairwiseProblem &problem) {
  std::vector<int> choice(problem.variables.size()), best;
  double least = std::numeric_limits<double>::infinity();
  while (true) {
    if (double cost = costOf(problem, choice);
        (best.empty() || cost < least) && withinCapacity(memoryOf(problem, choice), problem.capacity)) {
      least = cost;
      best = choice;
    }
    size_t v = choice.size();
    while (v > 0 && ++choice[v - 1] == static_cast<int>(problem.variables[v - 1].cost.size()))
      choice[--v] = 0;
    if (v == 0)
      return best;
  }
}
