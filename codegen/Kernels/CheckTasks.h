#pragma once
#include "dialects/Dist/Tasks.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace divisi::codegen {

/// Checks that the tasks and schedules of a module (which may be an edited dump) are consistent: every row of a
/// schedule runs the tasks of its device, each once for every microbatch, and after the tasks whose values it reads.
/// Fails with an error at the fault.
mlir::LogicalResult checkTasks(mlir::ModuleOp module);

} // namespace divisi::codegen
