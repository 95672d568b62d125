#pragma once
#include "mlir/IR/Value.h"

namespace mlir::func {
class FuncOp;
}

namespace divisi::graph {

/// The name of a function's argument: a parameter, buffer, state, input or run-time scalar; empty if it has none.
llvm::StringRef nameOfArgument(mlir::BlockArgument argument);
/// Whether an argument is the run-time scalar of this name.
bool isScalar(mlir::BlockArgument argument, llvm::StringRef name);

/// Whether what a function's attributes say of its arguments and results has the form that all who read them rely on: names are texts,
/// no two arguments share one, state has a name and a role. An error says which does not. (A dump may be edited by hand.)
llvm::LogicalResult checkArguments(mlir::func::FuncOp function);

} // namespace divisi::graph
