#pragma once
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace divisi {

/// Parses a file of MLIR's text, which may contain anything. Null, with a diagnostic, if it is no module.
mlir::OwningOpRef<mlir::ModuleOp> parseDump(const std::string &file, mlir::MLIRContext *context);

} // namespace divisi
