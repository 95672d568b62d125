#pragma once
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Value.h"

namespace divisi::codegen {

/// Computes a graph value that depends on constants only, by executing the scalar code that the code generator emits, whose
/// operations are folded. Fails (without a diagnostic) if the value depends on an argument, if an operation has neither a loop nor
/// a serial lowering, or if there are more than `budget` scalar operations to execute; those executed are taken from it.
mlir::FailureOr<mlir::DenseElementsAttr> evaluate(mlir::Value value, int64_t &budget);

} // namespace divisi::codegen
