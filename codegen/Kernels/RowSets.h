#pragma once
#include "dialects/Graph/Graph.h"
#include "step/Rows.h"

namespace divisi::codegen {

using step::intersect;
using step::RowSet;
using step::rowsOfShape;

/// The numbers of rows for which row r of the result needs row r of this operand only.
RowSet rowsThrough(mlir::Operation *op, unsigned operand);

} // namespace divisi::codegen
