#pragma once
#include "dialects/Dist/ShardingRule.h"

namespace divisi::step {

/// Numbers of rows into which a loop nest may be cut: increasing products of leading dimensions, beginning with 1.
using RowSet = llvm::SmallVector<int64_t, 6>;

/// All products of leading dimensions of a shape.
RowSet rowsOfShape(llvm::ArrayRef<int64_t> shape);
/// The numbers of rows for which row r of the first result needs row r of this operand only: the common leading factors
/// of the two in the operation's sharding rule.
RowSet rowsThrough(const dist::ShardingRule &rule, unsigned operand, llvm::ArrayRef<int64_t> operandShape,
                   llvm::ArrayRef<int64_t> resultShape);
RowSet intersect(const RowSet &a, const RowSet &b);

/// The number of rows of a kernel that may have these, and computes `points` elements at most for each of its stages: the
/// largest one; but where single elements would be rows and some operand is repeated along them (not `flat`), the rows are
/// cut so that the innermost loop runs over a dimension.
int64_t chooseRows(const RowSet &rows, int64_t points, bool flat);

} // namespace divisi::step
