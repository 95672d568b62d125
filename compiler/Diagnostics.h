#pragma once
#include "mlir/IR/Diagnostics.h"

#include "llvm/Support/Error.h"

namespace divisi::compiler {

/// Prints diagnostics for users: one line each, which begins with `about` and the node's name or the file and line.
class DiagnosticPrinter : public mlir::ScopedDiagnosticHandler {
public:
  explicit DiagnosticPrinter(mlir::MLIRContext *context, const std::string &about = "");
};

/// A diagnostic as one line: "error: node '/fc1/Gemm': ...".
std::string describe(const mlir::Diagnostic &diagnostic, llvm::StringRef about = "");

/// An error in what was asked for: tools exit with 2.
llvm::Error wrongRequest(const llvm::Twine &message);

} // namespace divisi::compiler
