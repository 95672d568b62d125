#pragma once
#include "dialects/Dist/Plan.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include "llvm/Support/MemoryBuffer.h"

namespace divisi {

/// The content of a file of MLIR's text; "-" is standard input. Fails for what is no regular file, such as a pipe, which would
/// block until it has a writer. The error does not name the file.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> readDump(const std::string &file);

/// Parses a file of MLIR's text, which may contain anything. Null, with a diagnostic, if it is no module.
mlir::OwningOpRef<mlir::ModuleOp> parseDump(const std::string &file, mlir::MLIRContext *context);

namespace planning {

/// The one plan of a file; null with an error at what is wrong with it. It belongs to `file`, the module that it was
/// parsed to.
dist::PlanOp parsePlan(mlir::OwningOpRef<mlir::ModuleOp> &file, const std::string &path, mlir::MLIRContext *context);

} // namespace planning
} // namespace divisi
