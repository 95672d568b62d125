#pragma once
#include "mlir/IR/Value.h"

#include <optional>

namespace divisi::training {

/// The largest number that masks a score: the exponential of any such score is zero beside any other.
inline constexpr double masksFrom = -1e8;

/// The number that masks, if `added` is provably a causal mask: zero for all keys up to the query's own index, and a
/// number <= masksFrom for the others. `added` is a computation over constants and indices whose last two dimensions
/// are queries and keys.
std::optional<double> causalNumber(mlir::Value added);
/// Whether a condition (i1) provably is a causal mask: it equals `masksWhere` exactly for the masked scores.
bool isCausal(mlir::Value condition, bool masksWhere);

} // namespace divisi::training
