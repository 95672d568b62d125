#pragma once
#include "mlir/IR/Diagnostics.h"

namespace divisi::tools {

/// Prints diagnostics for users: one line each, which begins with the node's name or the file and line.
class DiagnosticPrinter : public mlir::ScopedDiagnosticHandler {
public:
  explicit DiagnosticPrinter(mlir::MLIRContext *context);
};

/// A diagnostic as one line: "error: node '/fc1/Gemm': ...".
std::string describe(const mlir::Diagnostic &diagnostic);

} // namespace divisi::tools
