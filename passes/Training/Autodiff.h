#pragma once
#include "dialects/Graph/GraphBuilder.h"

namespace divisi::training {

/// Reverse-mode differentiation of straight-line graph code: builds, at the builder's insertion point, the gradients of
/// the scalar `loss` with respect to `wanted`, by asking every operation between them for its gradient facet. An entry
/// is null if the loss does not depend on the value. Each gradient operation has the location of the operation that it
/// differentiates.
llvm::SmallVector<mlir::Value> buildGradients(mlir::OpBuilder &builder, mlir::Value loss, mlir::ValueRange wanted);

} // namespace divisi::training
