#pragma once
#include "mlir/IR/Value.h"

#include <optional>

namespace mlir::func {
class FuncOp;
}

namespace divisi::graph {

/// The name of a function's argument: a parameter, buffer, state, input or run-time scalar; empty if it has none.
llvm::StringRef nameOfArgument(mlir::BlockArgument argument);
/// The role of an argument that is state ("parameter", "moment", "step", ...); empty if it is none.
llvm::StringRef roleOf(mlir::BlockArgument argument);
/// The number of the result that renews the state of this name; null if none does.
std::optional<unsigned> findRenewal(mlir::func::FuncOp function, llvm::StringRef state);
/// Whether an argument is the run-time scalar of this name.
bool isScalar(mlir::BlockArgument argument, llvm::StringRef name);

/// Checks the attributes of a function's arguments and results, on which all passes rely: names are texts, no two
/// arguments have the same name, state has a name and a role. Fails with an error at the first fault. (A dump may be
/// edited by hand.)
llvm::LogicalResult checkArguments(mlir::func::FuncOp function);

} // namespace divisi::graph
