#pragma once
#include "dialects/Graph/Graph.h"

namespace divisi::codegen {

/// Numbers of rows into which a loop nest may be cut: increasing products of leading dimensions, beginning with 1.
using RowSet = llvm::SmallVector<int64_t, 6>;

/// All products of leading dimensions of a shape.
RowSet rowsOfShape(llvm::ArrayRef<int64_t> shape);
/// The numbers of rows for which row r of the result needs row r of this operand only, by the operation's sharding
/// rule: the common leading factors of the two.
RowSet rowsThrough(mlir::Operation *op, unsigned operand);
RowSet intersect(const RowSet &a, const RowSet &b);

} // namespace divisi::codegen
