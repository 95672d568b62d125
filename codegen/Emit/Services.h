#pragma once
#include "codegen/Lowering/ScalarBuilder.h"
#include "dialects/Exec/Exec.h"

namespace divisi::codegen {

/// The service of the runtime that computes a call, with its parameter block: the call's id and the bytes of its
/// workspace are in it. A located error if there is none.
mlir::FailureOr<LibraryCall> serviceOf(exec::CallOp call);

/// Whether the runtime has a service for every call of the module, with a located error for each that has none: what
/// this compiler made passes, an edited dump may not.
mlir::LogicalResult checkServices(mlir::ModuleOp module);

} // namespace divisi::codegen
