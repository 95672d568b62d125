#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/DenseMap.h"

#include <optional>

namespace divisi::graph {

/// One more bit of `when` (see When): outputs of the model in an evaluation.
constexpr int64_t whenPredictions = 4;
/// The optimizer state (`moment`) that is the average of a parameter.
constexpr llvm::StringLiteral averageMoment = "ema";
/// Reports of a training step, for the noise scale: the square of the global norm of the batch's gradient, and the mean of
/// the squares of its shares' (`shares` is their number).
constexpr llvm::StringLiteral gradSquareBig = "grad_sq_big", gradSquareSmall = "grad_sq_small";

/// The operations of a function with one block that are computed on demand, because only reports need them, and the
/// steps in which they are (bits of graph::When). Operations that every step needs are not included, and neither are
/// messages from other stages. For results that tasks hold for each other, the attribute is dist.when.
llvm::DenseMap<mlir::Operation *, int64_t> whenNeeded(mlir::func::FuncOp function);
/// The same bits of one result of the function.
int64_t whenNeeded(mlir::func::FuncOp function, unsigned result);
/// The first result that is a report of this kind; null if there is none.
std::optional<unsigned> findReport(mlir::func::FuncOp function, llvm::StringRef kind);

} // namespace divisi::graph
