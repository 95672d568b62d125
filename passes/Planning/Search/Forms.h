#pragma once
#include "passes/Planning/Problem.h"

namespace divisi::planning {

/// The names that the field has for what a plan does with each axis: "data", "tensor", "expert", "sequence", "ZeRO-1",
/// "ZeRO-3".
std::vector<std::string> recognize(const Problem &problem, const dist::Mesh &mesh, const Plan &plan);

} // namespace divisi::planning
