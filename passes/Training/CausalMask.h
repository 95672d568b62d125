#pragma once
#include "mlir/IR/Value.h"

#include <optional>

namespace divisi::training {

/// A number that masks a score: its exponential is zero beside any other.
inline constexpr double masksFrom = -1e8;

/// What is added to scores, if it is known to be zero for all keys up to the query's own index and to mask the others:
/// by which number. A computation over constants and indices, with queries and keys as its last two dimensions.
std::optional<double> causalNumber(mlir::Value added);
/// Whether the same is known of a condition (i1) that masks scores where it is `masksWhere`.
bool isCausal(mlir::Value condition, bool masksWhere);

} // namespace divisi::training
