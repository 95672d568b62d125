#pragma once
#include "dialects/Dist/ShardingRule.h"

namespace divisi::dist {

/// What an operation splits: the axes of each factor of its rule.
using FactorAxes = llvm::SmallVector<Axes>;

/// Divides the axes of one dimension among its factors (major to minor): a factor takes axes while they divide it, and
/// a minor factor is split only when the more major ones are split entirely. False if that cannot be done.
bool axesToFactors(const Mesh &mesh, const ShardingRule &rule, llvm::ArrayRef<int> factors, llvm::ArrayRef<int> axes,
                   llvm::MutableArrayRef<Axes> perFactor);

/// The axes of every factor as one tensor's sharding says them. A dimension whose split cuts through its factors says
/// nothing.
FactorAxes factorsOf(const Mesh &mesh, const ShardingRule &rule, const ShardingRule::Dims &dims,
                     const Sharding &sharding);

/// The axes of one dimension, given those of the factors. Nothing if a minor factor is split while a major one is not
/// entirely, which no contiguous split says.
std::optional<Axes> factorsToAxes(const Mesh &mesh, const ShardingRule &rule, llvm::ArrayRef<int> factors,
                                  const FactorAxes &perFactor);

/// The split of a whole tensor with these factors by dimension, without pending axes.
std::optional<Sharding> shardingOf(const Mesh &mesh, const ShardingRule &rule, const ShardingRule::Dims &dims,
                                   const FactorAxes &perFactor);

/// Axes over which the results are partial because contracted factors are split (sorted), and how they combine. Nothing
/// if factors with different reductions are split.
std::optional<std::pair<Axes, Reduction>> contractedAxes(const ShardingRule &rule, const FactorAxes &perFactor);

/// Whether every factor may be split so: not whole, divisible, no axis for two factors, every tensor's dimensions can
/// say it, and partial results of one kind only.
bool isValid(const Mesh &mesh, const ShardingRule &rule, const FactorAxes &perFactor);

/// Which axes may stay pending through an operation, given the shardings of its operands: those that all operands
/// (linear in all) or exactly one (linear in each) are pending over. None if that is not allowed.
Axes passingAxes(const ShardingRule &rule, llvm::ArrayRef<Sharding> operands, Reduction &kind);

} // namespace divisi::dist
