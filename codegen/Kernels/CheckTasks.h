#pragma once
#include "dialects/Dist/Tasks.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace divisi::codegen {

/// Whether the tasks and schedules of a module, which may come from a dump that somebody has edited, go together: every
/// row runs the tasks of its device, each once for every microbatch and in the order in which they read what others
/// leave. Fails with an error at the fault.
mlir::LogicalResult checkTasks(mlir::ModuleOp module);

} // namespace divisi::codegen
