#pragma once
#include "dialects/Graph/Graph.h"
#include "passes/Planning/Problem.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace divisi::planning {

/// The problem of a module's functions (@train and @evaluate, one state), and which IR its numbers stand for.
struct ModuleProblem {
  Problem problem;
  std::vector<mlir::Operation *> ops;     // by number of the operation
  llvm::DenseMap<mlir::Value, int> tensorOf;
  llvm::DenseMap<mlir::Operation *, int> opOf;

  /// The type of a named tensor (an argument).
  mlir::Type typeOf(int tensor) const {
    for (auto [value, number] : tensorOf)
      if (number == tensor)
        return value.getType();
    return {};
  }
  /// Fails, with an error at the operation, where there is no sharding rule.
  static mlir::FailureOr<ModuleProblem> build(mlir::ModuleOp module);
};

} // namespace divisi::planning
