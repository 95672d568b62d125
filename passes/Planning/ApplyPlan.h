#pragma once
#include "passes/Planning/ModuleProblem.h"

namespace divisi::planning {

/// Writes a plan into the IR: shardings as types, a dist.reshard wherever a value is used in another sharding than the
/// one in which it is produced, `dist.mesh` on the functions. Partial sums stay pending through linear operations that
/// do not make them larger, and are reduced before other uses.
void applyPlan(mlir::ModuleOp module, const ModuleProblem &problem, const Plan &plan, const dist::Mesh &mesh);

} // namespace divisi::planning
