#pragma once
#include "dialects/Graph/GraphBuilder.h"

#include "passes/Layout/LayoutInterface.h.inc"

namespace divisi::layout {

/// Attaches the layout interface to the operations that have it.
void registerLayouts(mlir::DialectRegistry &registry);

/// Whether the operation computes each element from its operands' elements at the same index.
bool isElementwise(mlir::Operation *op);

} // namespace divisi::layout
