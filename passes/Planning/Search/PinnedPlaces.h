#pragma once
#include "passes/Planning/Strategy.h"

namespace divisi::planning {

/// Whether every device computes everything.
bool splitsNothing(const Plan &plan);

/// How the training step leaves its values and the named tensors, as pins for a search of the rest.
std::map<int, dist::Sharding> placesOf(const Problem &problem, const dist::Mesh &mesh, const Plan &plan);

/// The states as a plan lays them, and the inputs that a user has pinned, as pins for a search.
std::map<int, dist::Sharding> statesOf(const Problem &problem, const Plan &plan, const std::vector<Pin> &pins);

/// Matrices of parameters whole, but for what is pinned already.
std::map<int, dist::Sharding> withWholeMatrices(const Problem &problem, std::map<int, dist::Sharding> places);

/// Pins with one more: an input whose first dimension is over one of several axes.
std::vector<std::vector<Pin>> withSplitInputs(const Problem &problem, const dist::Mesh &mesh,
                                              const std::vector<Pin> &pins);

/// The shardings that pins ask for; an error if one cannot hold.
llvm::Expected<std::map<int, dist::Sharding>> placesOf(const Problem &problem, const dist::Mesh &mesh,
                                                       const std::vector<Pin> &pins);

} // namespace divisi::planning
