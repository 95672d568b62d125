#pragma once
#include "dialects/Dist/Sharding.h"

#include "mlir/IR/Attributes.h"
#include "mlir/IR/Types.h"

namespace divisi::graph {

/// The number of an element type that changes no sum, maximum or minimum.
mlir::Attribute neutralOf(dist::Reduction reduction, mlir::Type element);

} // namespace divisi::graph
