#pragma once
#include "dialects/Dist/ShardingRule.h"

namespace divisi::dist {

/// The sharding of an operation: the axes of each factor of its rule.
using FactorAxes = llvm::SmallVector<Axes, 7>;

/// Distributes the axes of one dimension over its factors (major to minor): a factor takes axes while they divide it,
/// and a minor factor takes some only if the more major factors are completely sharded. Returns false if this is
/// impossible.
bool axesToFactors(const Mesh &mesh, const ShardingRule &rule, llvm::ArrayRef<int> factors, AxesRef axes,
                   llvm::MutableArrayRef<Axes> perFactor);

/// The axes of every factor that follow from one tensor's sharding. A dimension whose sharding does not match its
/// factors is ignored.
FactorAxes factorsOf(const Mesh &mesh, const ShardingRule &rule, const ShardingRule::Dims &dims,
                     const Sharding &sharding);

/// The axes of one dimension that follow from those of its factors. Null if a minor factor is sharded while a major one
/// is not completely, because such a sharding is not contiguous.
std::optional<Axes> factorsToAxes(const Mesh &mesh, const ShardingRule &rule, llvm::ArrayRef<int> factors,
                                  const FactorAxes &perFactor);

/// The sharding of a tensor with these factors in each dimension, without pending axes.
std::optional<Sharding> shardingOf(const Mesh &mesh, const ShardingRule &rule, const ShardingRule::Dims &dims,
                                   const FactorAxes &perFactor);

/// The axes over which results are partial because contracted factors are sharded (sorted), and how they are combined.
/// Null if factors with different reductions are sharded.
std::optional<std::pair<Axes, Reduction>> contractedAxes(const ShardingRule &rule, const FactorAxes &perFactor);

/// Of axes over which an operation's results are pending, those over which a result of this sharding is: not those of
/// factors that it has itself.
Axes pendingIn(const Sharding &result, AxesRef axes);

/// Whether the factors may be sharded in this way: none is `whole`, all sizes divide, no axis shards two factors, every
/// tensor's sharding can express it, and all partial results have the same reduction.
bool isValid(const Mesh &mesh, const ShardingRule &rule, const FactorAxes &perFactor);

/// The axes that may stay pending through an operation with operands of these shardings: those over which all operands
/// (linear in all) or exactly one operand (linear in each) are pending. Empty if the rule allows none.
Axes passingAxes(const ShardingRule &rule, llvm::ArrayRef<Sharding> operands, Reduction &kind);

} // namespace divisi::dist
