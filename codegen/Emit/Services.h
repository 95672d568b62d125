#pragma once
#include "codegen/Lowering/ScalarBuilder.h"
#include "dialects/Exec/Exec.h"

namespace divisi::codegen {

/// The service of the runtime that computes a call, with its parameter block, which includes the call's id and the
/// bytes of its workspace. Fails with an error at the call if there is none.
mlir::FailureOr<LibraryCall> serviceOf(exec::CallOp call);

/// Checks that the runtime has a service for every call of the module, with an error at each that has none. Calls that
/// this compiler created pass; an edited dump may fail.
mlir::LogicalResult checkServices(mlir::ModuleOp module);

} // namespace divisi::codegen
