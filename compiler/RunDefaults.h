#pragma once
#include "mlir/IR/BuiltinOps.h"

#include <optional>

namespace divisi::compiler {

/// What a program does unless its own flags say otherwise. Absent: what the flags' help says.
struct RunDefaults {
  std::optional<double> lr;
  std::optional<std::string> schedule; // of the learning rate
  std::optional<int64_t> warmupSteps;

  /// The names of schedules.
  static llvm::ArrayRef<std::string> schedules();
};

/// Notes them in a module, so that a program which is made of its dump has them: the attribute graph.run_defaults. What is
/// noted already stays where `defaults` has nothing.
void noteDefaults(mlir::ModuleOp module, const RunDefaults &defaults);

/// What was noted. Fails with a diagnostic if the attribute was edited to something else.
mlir::FailureOr<RunDefaults> defaultsOf(mlir::ModuleOp module);

} // namespace divisi::compiler
