#pragma once
#include "dialects/Graph/Graph.h"
#include "passes/Planning/Problem.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace divisi::planning {

/// The problem of a module's functions (@train and @evaluate, one state), and which IR its numbers stand for.
struct ModuleProblem {
  Problem problem;
  std::vector<mlir::Operation *> ops; // by number of the operation
  std::vector<mlir::Type> types;      // by number of the tensor
  llvm::DenseMap<mlir::Value, int> tensorOf;
  llvm::DenseMap<mlir::Operation *, int> opOf;

  /// Fails, with an error at the operation, where there is no sharding rule.
  static mlir::FailureOr<ModuleProblem> build(mlir::ModuleOp module);
  /// The problem of one task, which a step runs so often: of what one device has, with collectives and messages as calls.
  static mlir::FailureOr<ModuleProblem> ofTask(mlir::func::FuncOp task, int64_t times);
};

/// The forward pass of a training step: what its reports (the loss, what is counted; not norms of gradients) are
/// computed from.
llvm::DenseSet<mlir::Operation *> reportedOps(mlir::func::FuncOp function);

} // namespace divisi::planning
