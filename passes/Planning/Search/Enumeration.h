#pragma once
#include "passes/Planning/Search/PairwiseProblem.h"

namespace divisi::planning {

/// Whether the problem is so small that to try every plan takes milliseconds.
bool mayEnumerate(const PairwiseProblem &problem);
/// The cheapest plan within the capacity; of equal ones the lexicographically first. Some plan must fit.
std::vector<int> enumerate(const PairwiseProblem &problem);

} // namespace divisi::planning
