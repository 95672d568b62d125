#pragma once
#include "mlir/IR/BuiltinOps.h"

namespace divisi::codegen {

/// Checks that every value of a module at the level exec (which may be an edited dump) has a place in the arena or in a
/// buffer slot, and that schedules have the slots. Fails with an error at the first fault.
mlir::LogicalResult checkPlaces(mlir::ModuleOp module);

} // namespace divisi::codegen
