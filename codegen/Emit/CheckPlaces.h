#pragma once
#include "mlir/IR/BuiltinOps.h"

namespace divisi::codegen {

/// Whether everything in a module at the level exec, which may be a dump that somebody has edited, has a place in the
/// arena or in a slot, and schedules the slots that they need. Fails with an error at what has none.
mlir::LogicalResult checkPlaces(mlir::ModuleOp module);

} // namespace divisi::codegen
