#pragma once
#include "mlir/IR/BuiltinOps.h"

namespace divisi::pipelining {

/// How an update combines what workers send as one of its arguments.
struct Combination {
  llvm::StringRef how = "copy";   // or the kind of its all_reduce over the replicas
  mlir::Operation *odd = nullptr; // if there is one: it reads the values otherwise than those before it
};
Combination combinationOf(mlir::BlockArgument argument);

/// Whether an operation of level dist or exec is a collective along the axis of replicas, perhaps with others.
bool isOverReplicas(mlir::Operation *op);

/// Checks that a module of level planned, dist or exec is one of `dist.sync`, which may have been edited: that its mesh has
/// replicas that can be kept in step so, that its training step adds up over them or does not, that dedicated servers have
/// updates of their own, and that workers send what these read. Fails with an error where something does not fit.
llvm::LogicalResult checkSync(mlir::ModuleOp module);

} // namespace divisi::pipelining
