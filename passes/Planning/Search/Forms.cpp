#include "passes/Planning/Search/Forms.h"

#include "passes/Planning/Expansion.h"

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;

/// Whether the axis shards the batch of an operation's operand.
static bool splitsBatch(const Problem &problem, const Mesh &mesh, const Plan &plan, int axis) {
  for (auto [op, factors] : llvm::zip(problem.ops, plan.ops))
    for (auto [i, t] : llvm::enumerate(op.operands))
      for (auto [tensor, dim] : problem.batchDims)
        if (tensor == t && !op.forward && llvm::is_contained(operandSharding(op, mesh, factors, i).dims[dim], axis))
          return true;
  return false;
}

/// Bytes of parameters that contractions of the backward pass and the update read sharded along the axis without a
/// gather; and whether the sharded factor also occurs in the other operand and the result (experts, as opposed to rows
/// or columns of one matrix).
static std::pair<double, bool> usedInPlace(const Problem &problem, const Mesh &mesh, const Plan &plan, int axis) {
  double bytes = 0;
  bool experts = false;
  for (auto [op, factors] : llvm::zip(problem.ops, plan.ops)) {
    if (op.forward || op.seldom ||
        !llvm::any_of(op.rule.factors, [](const auto &f) { return f.reduction.has_value(); }))
      continue;
    for (auto [i, t] : llvm::enumerate(op.operands)) {
      if (!problem.tensors[t].weight || !operandSharding(op, mesh, factors, i).splits(axis))
        continue;
      bytes += problem.tensors[t].bytes();
      auto has = [axis = axis, &factors = factors](const ShardingRule::Dims &dims) {
        return llvm::any_of(dims, [&](const auto &list) {
          return llvm::any_of(list, [&](int f) { return llvm::is_contained(factors[f], axis); });
        });
      };
      experts |= op.operands.size() == 2 && has(op.rule.operands[1 - i]) && has(op.rule.results[0]);
    }
  }
  return {bytes, experts};
}

std::vector<std::string> planning::recognize(const Problem &problem, const Mesh &mesh, const Plan &plan) {
  std::vector<std::string> result;
  auto add = [&](const std::string &name) {
    if (!llvm::is_contained(result, name))
      result.push_back(name);
  };
  using Role = Problem::Role;
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    if (mesh.axes[a].size == 1)
      continue;
    double split[2] = {}, all[2] = {}; // of parameters and of optimizer state
    for (auto [t, tensor] : llvm::enumerate(problem.tensors))
      if (tensor.role == Role::parameter || tensor.role == Role::moment) {
        int kind = tensor.role == Role::moment;
        all[kind] += tensor.bytes();
        split[kind] += plan.tensors[t].splits(a) ? tensor.bytes() : 0;
      }
    auto [inPlace, experts] = usedInPlace(problem, mesh, plan, a);
    bool tensor = inPlace > 0.25 * all[0], batch = splitsBatch(problem, mesh, plan, a);
    if (tensor)
      add(experts ? "expert" : "tensor");
    if (!tensor && split[0] > 0.5 * all[0])
      add("ZeRO-3");
    else if (!tensor && split[1] > 0.5 * all[1])
      add("ZeRO-1");
    else if (batch)
      add("data");
    else if (!tensor && llvm::any_of(plan.ops, [&](const FactorAxes &factors) {
               return llvm::any_of(factors, [&](const Axes &axes) { return llvm::is_contained(axes, (int)a); });
             }))
      add("sequence");
  }
  return result;
}
