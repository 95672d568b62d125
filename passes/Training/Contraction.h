#pragma once
#include "dialects/Graph/Graph.h"

namespace divisi::training {

/// Whether the operation is a contraction (dist::ShardingRule::isContraction).
bool isContraction(mlir::Operation *op);

/// The number that a constant, or a broadcast constant, has everywhere.
std::optional<double> numberOf(mlir::Value value);

/// The 16-bit float type with this name in the options of passes: bf16 or f16.
mlir::Type smallFloat(llvm::StringRef name, mlir::MLIRContext *context);

} // namespace divisi::training
