#pragma once
#include "compiler/Profile/Database.h"
#include "passes/Planning/ModulePlanner.h"

namespace divisi::compiler {

/// The plans of planModule. Those that may be the best on this machine (a "cpu" cluster) are compiled as far as tasks
/// over buffers: the arena is then known exactly, and where the database has times measured with so many ranks, they
/// are ranked by these. The module is simplified (addSimplify).
llvm::Expected<std::vector<planning::ModuleCandidate>> rankPlans(mlir::ModuleOp module,
                                                                  const planning::Cluster &cluster,
                                                                  const planning::PlannerOptions &options,
                                                                  const ProfileDatabase &database);

/// Threads of each of so many ranks on this machine, as `divisi run` divides its cores.
RunSetting settingFor(int64_t ranks);

} // namespace divisi::compiler
