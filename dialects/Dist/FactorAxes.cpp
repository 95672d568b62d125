#include "dialects/Dist/FactorAxes.h"

using namespace divisi;
using namespace divisi::dist;
using llvm::ArrayRef;

bool dist::axesToFactors(const Mesh &mesh, const ShardingRule &rule, ArrayRef<int> factors, AxesRef axes,
                         llvm::MutableArrayRef<Axes> perFactor) {
  size_t next = 0;
  for (int factor : factors) {
    int64_t rest = rule.factors[factor].size;
    while (next < axes.size() && rest % mesh.axes[axes[next]].size == 0) {
      rest /= mesh.axes[axes[next]].size;
      perFactor[factor].push_back(axes[next++]);
    }
    if (next == axes.size())
      return true;
    if (rest != 1)
      return false;
  }
  return next == axes.size();
}

FactorAxes dist::factorsOf(const Mesh &mesh, const ShardingRule &rule, const ShardingRule::Dims &dims,
                           const Sharding &sharding) {
  FactorAxes result(rule.factors.size());
  for (auto [d, factors] : llvm::enumerate(dims)) {
    const Axes &axes = sharding.dims[d];
    if (axes.empty()) {
      for (int factor : factors)
        result[factor].clear();
      continue;
    }
    if (factors.size() == 1) { // one factor takes all or nothing
      if (rule.factors[factors[0]].size % mesh.parts(axes) == 0)
        result[factors[0]] = axes;
      continue;
    }
    FactorAxes mine(rule.factors.size());
    if (axesToFactors(mesh, rule, factors, axes, mine))
      for (int factor : factors)
        result[factor] = mine[factor];
  }
  return result;
}

std::optional<Axes> dist::factorsToAxes(const Mesh &mesh, const ShardingRule &rule, ArrayRef<int> factors,
                                        const FactorAxes &perFactor) {
  if (factors.size() == 1)
    return perFactor[factors[0]];
  Axes axes;
  bool open = false; // a more major factor is not completely sharded
  for (int factor : factors) {
    if (open && !perFactor[factor].empty())
      return std::nullopt;
    axes.append(perFactor[factor].begin(), perFactor[factor].end());
    open |= mesh.parts(perFactor[factor]) != rule.factors[factor].size;
  }
  return axes;
}

std::optional<Sharding> dist::shardingOf(const Mesh &mesh, const ShardingRule &rule, const ShardingRule::Dims &dims,
                                         const FactorAxes &perFactor) {
  Sharding sharding(dims.size());
  for (auto [d, factors] : llvm::enumerate(dims)) {
    auto axes = factorsToAxes(mesh, rule, factors, perFactor);
    if (!axes)
      return std::nullopt;
    sharding.dims[d] = *axes;
  }
  return sharding;
}

std::optional<std::pair<Axes, Reduction>> dist::contractedAxes(const ShardingRule &rule, const FactorAxes &perFactor) {
  std::pair<Axes, Reduction> result{{}, Reduction::sum};
  for (auto [factor, axes] : llvm::zip(rule.factors, perFactor)) {
    if (axes.empty() || !factor.reduction)
      continue;
    if (!result.first.empty() && result.second != *factor.reduction)
      return std::nullopt;
    result.first.append(axes.begin(), axes.end());
    result.second = *factor.reduction;
  }
  llvm::sort(result.first);
  return result;
}

Axes dist::pendingIn(const Sharding &result, AxesRef axes) {
  Axes pending;
  llvm::copy_if(axes, std::back_inserter(pending), [&](int axis) {
    return llvm::none_of(result.dims, [&](const Axes &dim) { return llvm::is_contained(dim, axis); });
  });
  return pending;
}

bool dist::isValid(const Mesh &mesh, const ShardingRule &rule, const FactorAxes &perFactor) {
  llvm::SmallVector<int> seen;
  for (auto [factor, axes] : llvm::zip(rule.factors, perFactor)) {
    int64_t parts = mesh.parts(axes);
    if (!axes.empty() &&
        (factor.whole || factor.size % parts != 0 || (parts > 1 && factor.size / parts < factor.least)))
      return false;
    for (int axis : axes) {
      if (llvm::is_contained(seen, axis))
        return false;
      seen.push_back(axis);
    }
  }
  // The factors must give the types' shardings again: an axis of one device, for instance, may be taken for another
  // factor's.
  auto fits = [&](const ShardingRule::Dims &dims) {
    return llvm::all_of(dims, [&](llvm::ArrayRef<int> factors) {
      if (factors.size() == 1 || llvm::all_of(factors, [&](int factor) { return perFactor[factor].empty(); }))
        return true; // (one factor's size has been looked at)
      auto axes = factorsToAxes(mesh, rule, factors, perFactor);
      FactorAxes read(rule.factors.size());
      return axes && axesToFactors(mesh, rule, factors, *axes, read) &&
             llvm::all_of(factors, [&](int factor) { return read[factor] == perFactor[factor]; });
    });
  };
  return contractedAxes(rule, perFactor) && llvm::all_of(rule.operands, fits) && llvm::all_of(rule.results, fits);
}

Axes dist::passingAxes(const ShardingRule &rule, ArrayRef<Sharding> operands, Reduction &kind) {
  if (operands.empty() || rule.linear == Linear::no)
    return {};
  if (rule.linear == Linear::each) {
    const Sharding *only = nullptr;
    for (const Sharding &operand : operands) {
      if (operand.pending.empty())
        continue;
      if (only)
        return {};
      only = &operand;
    }
    if (!only || only->kind != Reduction::sum)
      return {};
    kind = Reduction::sum;
    return only->pending;
  }
  for (const Sharding &operand : operands)
    if (operand.pending != operands[0].pending || (!operand.pending.empty() && operand.kind != operands[0].kind))
      return {};
  if (rule.linear == Linear::all && operands[0].kind != Reduction::sum)
    return {};
  kind = operands[0].kind;
  return operands[0].pending;
}
