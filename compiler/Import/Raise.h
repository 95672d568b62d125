#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace divisi::compiler {

/// Replaces the operations that exporters write for gelu and RMS normalization by one operation each, whose gradient is
/// simpler.
void raisePatterns(mlir::func::FuncOp function);

} // namespace divisi::compiler
