#pragma once
#include "passes/Planning/ModuleProblem.h"

namespace divisi::planning {

/// Writes a plan into the IR: shardings as types, dist.reshard wherever a value is needed in another sharding than it
/// has, `dist.mesh` on the functions. Partial values stay pending through linear operations that do not make them
/// larger, and are reduced where something else needs them.
void applyPlan(mlir::ModuleOp module, const ModuleProblem &problem, const Plan &plan, const dist::Mesh &mesh);

} // namespace divisi::planning
