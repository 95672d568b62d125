#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/DenseMap.h"

namespace divisi::graph {

/// The operations of a function with one block that only reports need, and in which steps (bits of graph::When). Those
/// that every step needs are not in it, nor messages of other stages. Results that tasks hold for each other say it with dist.when.
llvm::DenseMap<mlir::Operation *, int64_t> whenNeeded(mlir::func::FuncOp function);

} // namespace divisi::graph
