#pragma once
#include "mlir/IR/Diagnostics.h"

#include "llvm/Support/Error.h"

namespace divisi::tools {

/// Prints diagnostics for users: one line each, which begins with `about` and the node's name or the file and line.
class DiagnosticPrinter : public mlir::ScopedDiagnosticHandler {
public:
  explicit DiagnosticPrinter(mlir::MLIRContext *context, const std::string &about = "");
};

/// A diagnostic as one line: "error: node '/fc1/Gemm': ...".
std::string describe(const mlir::Diagnostic &diagnostic, llvm::StringRef about = "");

/// Prints "error: MESSAGE" and returns the exit code: 2 for a wrong command line, 1 for the rest.
int fail(const llvm::Twine &message, int code = 1);

/// The same for an error of what a session ran, which has no text if a diagnostic was printed already.
int fail(llvm::Error error);

} // namespace divisi::tools
