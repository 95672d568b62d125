#pragma once
#include "passes/Planning/Problem.h"

namespace divisi::planning {

/// The names of the parallelisms that a plan uses along its axes: "data", "tensor", "expert", "sequence", "ZeRO-1",
/// "ZeRO-3".
std::vector<std::string> recognize(const Problem &problem, const dist::Mesh &mesh, const Plan &plan);

} // namespace divisi::planning
