#pragma once
#include "dialects/Dist/StageAxes.h"
#include "passes/Planning/ModuleProblem.h"

namespace divisi::planning {

/// Where the parts of a problem are in a pipeline; -1: on every stage that needs them.
struct StageNumbers {
  std::vector<int> ops;     // by operation
  std::vector<int> tensors; // by tensor: of the functions' arguments
};

/// A plan without the splits that stages cannot do: operations and states of a stage that lacks an axis are whole along
/// it. What no stage has to itself is whole along every axis that one of its users lacks.
Plan narrow(const Problem &problem, const dist::Mesh &mesh, const dist::StageAxes &axes, const StageNumbers &stages,
            Plan plan);

/// The same by `dist.stage_axes` and `dist.stage` of a module's functions, as assign-stages writes them; the plan as it
/// is where there are none.
Plan narrow(mlir::ModuleOp module, const ModuleProblem &problem, const dist::Mesh &mesh, const Plan &plan);

} // namespace divisi::planning
