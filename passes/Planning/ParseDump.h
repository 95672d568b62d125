#pragma once
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace divisi {

/// The module in a file of MLIR's text, which may be anything: null, with a diagnostic, if it is none.
mlir::OwningOpRef<mlir::ModuleOp> parseDump(const std::string &file, mlir::MLIRContext *context);

} // namespace divisi
