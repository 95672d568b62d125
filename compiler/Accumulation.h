#pragma once
#include "passes/Planning/ModulePlanner.h"

namespace divisi::compiler {

/// As planModule, and where memory is short also with gradient accumulation: the batch in microbatches that run one
/// after the other on all devices. `microbatches` of 0 chooses their number, any other fixes it; accumulation is
/// preferred to rematerialization, which computes more. Only for models whose numbers do not depend on microbatches.
llvm::Expected<std::vector<planning::ModuleCandidate>> planAccumulating(mlir::ModuleOp module,
                                                                        const planning::Cluster &cluster,
                                                                        const planning::PlannerOptions &options,
                                                                        int64_t microbatches);

/// A copy of a module at the level train in microbatches. Fails with a diagnostic if it cannot be split so.
mlir::FailureOr<std::shared_ptr<const planning::SplitModule>> splitModule(mlir::ModuleOp module, int64_t microbatches);

} // namespace divisi::compiler
