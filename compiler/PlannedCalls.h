#pragma once
#include "compiler/Attempt.h"
#include "passes/Planning/Cost/StepCall.h"

namespace divisi::compiler {

/// What the devices run in a step under the first plan that was found or, without one, the first pipeline: in order, as the
/// planner forms and prices kernels, those of a device's own part of the program. If the step is split by stages or
/// microbatches, task by task. `isFile`: the plan is of a file, as which the module was prepared. Fails without a text if a
/// diagnostic was emitted.
llvm::Expected<std::vector<planning::StepCall>> plannedCalls(const Attempt &found, const planning::Cluster &cluster,
                                                             bool isFile);

} // namespace divisi::compiler
