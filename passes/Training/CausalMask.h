#pragma once
#include "mlir/IR/Value.h"

namespace divisi::training {

/// A number that masks a score: its exponential is zero beside any other.
inline constexpr double masksFrom = -1e8;

/// What is added to scores: whether it is known to be zero for all keys up to the query's own index, and to mask the
/// others. A computation over constants and indices, with queries and keys as its last two dimensions.
bool isCausal(mlir::Value added);
/// The same of a condition (i1) that masks scores where it is `masksWhere`.
bool isCausal(mlir::Value condition, bool masksWhere);

} // namespace divisi::training
