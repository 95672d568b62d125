#pragma once
#include "passes/Planning/Problem.h"

namespace divisi::planning {

/// The names of the parallelisms that a plan uses along its axes, in this order: "data", "ZeRO-1", "ZeRO-3", "tensor",
/// "expert", "spatial", "sequence".
std::vector<std::string> recognize(const Problem &problem, const dist::Mesh &mesh, const Plan &plan);

} // namespace divisi::planning
