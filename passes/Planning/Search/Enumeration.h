#pragma once
#include "passes/Planning/Search/PairwiseProblem.h"

namespace divisi::planning {

/// Whether the problem is so small that all plans can be tried in milliseconds.
bool mayEnumerate(const PairwiseProblem &problem);
/// The cheapest plan within the capacity; of equal ones the lexicographically first. There must be such a plan.
std::vector<int> enumerate(const PairwiseProblem &problem);

} // namespace divisi::planning
