#pragma once
#include "dialects/Graph/Graph.h"

namespace divisi::training {

/// Whether the operation sums products of its two operands: matrix products, convolutions and their gradients.
bool isContraction(mlir::Operation *op);

} // namespace divisi::training
