#pragma once
#include "mlir/IR/BuiltinOps.h"

namespace divisi::codegen {

/// Whether the parameters of calls in a module at the level exec, which may be a dump that somebody has edited, are those
/// of services that there are, and read and write no more than the calls' tensors have. Fails with an error at the call
/// that does not fit.
mlir::LogicalResult checkCalls(mlir::ModuleOp module);

} // namespace divisi::codegen
