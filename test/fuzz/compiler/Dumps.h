//===- Dumps.h - reading texts of the compiler in one process ---*- C++ -*-===//
#ifndef DIVISI_TEST_FUZZ_COMPILER_DUMPS_H
#define DIVISI_TEST_FUZZ_COMPILER_DUMPS_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

namespace divisi::fuzz {

/// What `divisi` reads texts in, with its dialects. A context keeps what it has seen: after some hundred inputs comes another.
mlir::MLIRContext &context();

/// Notes whether an error was reported, and prints nothing unless DIVISI_FUZZ_TELLS is in the environment. A refusal without one is a finding, as is an acceptance with one.
class Heard {
public:
  explicit Heard(mlir::MLIRContext &context);
  void expectError(bool failed) const;

private:
  bool error = false;
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace divisi::fuzz

#endif // DIVISI_TEST_FUZZ_COMPILER_DUMPS_H
