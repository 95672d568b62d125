#pragma once
#include "compiler/Pipeline.h"
#include "compiler/Profile/Database.h"
#include "passes/Planning/ModulePlanner.h"

namespace divisi::compiler {

/// Plans, best first.
struct RankedPlans {
  std::vector<planning::ModuleCandidate> candidates;
  std::string unmeasured; // why no times of the database order them, if it has any; else ""
};

/// The plans of planAccumulating. Those that may be the best on this machine (a "cpu" cluster) are compiled to tasks over
/// buffers: the arena is then known exactly, and if the database has times measured with this number of ranks, the
/// plans are ordered by these. The module is simplified (addSimplify); it may be in microbatches `already`.
llvm::Expected<RankedPlans> rankPlans(mlir::ModuleOp module, const planning::Cluster &cluster,
                                      const planning::PlannerOptions &options, int64_t microbatches,
                                      const ProfileDatabase &database, const MicrobatchOptions &already = {});

/// Applies a plan to a module at the level train, which has its nodes and is in the microbatches of `options` (with the names
/// of the cuts), splits the step into the tasks of its devices, as a compilation does, and runs `addMore`'s passes. Without the
/// noise scale.
mlir::LogicalResult toTasks(mlir::ModuleOp module, const planning::ModuleCandidate &plan, const MicrobatchOptions &options,
                            llvm::function_ref<void(mlir::OpPassManager &)> addMore);

/// The ranks and threads of a run on this machine, as `divisi run` divides its cores among `ranks`.
RunSetting settingFor(int64_t ranks);

} // namespace divisi::compiler
