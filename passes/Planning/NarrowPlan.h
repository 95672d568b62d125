#pragma once
#include "dialects/Dist/StageAxes.h"
#include "passes/Planning/ModuleProblem.h"

namespace divisi::planning {

/// The stages of a problem's operations and tensors; -1: on every stage that uses it.
struct StageNumbers {
  std::vector<int> ops;     // by operation
  std::vector<int> tensors; // by tensor: of the functions' arguments
};

/// Removes from a plan the axes that stages lack: operations and state of a stage are replicated along the axes that
/// the stage lacks. An operation that belongs to no stage is replicated along every axis that one of its users lacks.
Plan narrow(const Problem &problem, const dist::Mesh &mesh, const dist::StageAxes &axes, const StageNumbers &stages,
            Plan plan);

/// The same for a module, by its `dist.stage_axes` and `dist.stage`, which assign-stages writes; without these the plan
/// is returned unchanged.
Plan narrow(mlir::ModuleOp module, const ModuleProblem &problem, const dist::Mesh &mesh, const Plan &plan);

} // namespace divisi::planning
