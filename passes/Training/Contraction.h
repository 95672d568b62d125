#pragma once
#include "dialects/Graph/Graph.h"

namespace divisi::training {

/// Whether the operation sums products of its two operands: matrix products, convolutions and their gradients.
bool isContraction(mlir::Operation *op);

/// What products of 16 bits are computed in, by its name in passes' options: bf16 or f16.
mlir::Type smallFloat(llvm::StringRef name, mlir::MLIRContext *context);

} // namespace divisi::training
