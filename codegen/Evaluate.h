#pragma once
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Value.h"

namespace divisi::codegen {

/// Computes a graph value that depends on constants only, by folding the scalar code that the code generator emits for
/// each element. Fails (without a diagnostic) if the value depends on an argument, if an operation has no loop
/// lowering, or if there are more than `maxPoints` points to compute.
mlir::FailureOr<mlir::DenseElementsAttr> evaluate(mlir::Value value, int64_t maxPoints = 1 << 16);

} // namespace divisi::codegen
