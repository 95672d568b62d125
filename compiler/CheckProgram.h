#pragma once
#include "mlir/IR/BuiltinOps.h"

namespace divisi::compiler {

/// Checks a dump of level exec, which anyone may have edited: its tasks, their places on the mesh, the kernels that share a launch,
/// and its calls. Fails with a diagnostic.
mlir::LogicalResult checkProgram(mlir::ModuleOp module);

} // namespace divisi::compiler
