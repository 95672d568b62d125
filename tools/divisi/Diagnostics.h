#pragma once
#include "mlir/IR/Diagnostics.h"

namespace divisi::tools {

/// Prints diagnostics as a user reads them: one line each, with the node's name or the file and line in front.
class DiagnosticPrinter : public mlir::ScopedDiagnosticHandler {
public:
  explicit DiagnosticPrinter(mlir::MLIRContext *context);
};

/// One line for a diagnostic: "error: node '/fc1/Gemm': ...".
std::string describe(const mlir::Diagnostic &diagnostic);

} // namespace divisi::tools
