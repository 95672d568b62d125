#pragma once
#include "passes/Planning/Search/PairwiseProblem.h"

namespace divisi::planning {

/// Gives variables that look alike some edges deep one kind (Weisfeiler and Leman's refinement); `looks`: by variable, a
/// number that those which may be tied have in common.
void tieAlike(PairwiseProblem &problem, const std::vector<int> &looks);

} // namespace divisi::planning
