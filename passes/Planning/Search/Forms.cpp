#include "passes/Planning/Search/Forms.h"

#include "passes/Planning/Expansion.h"

#include <map>
#include <set>

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;

/// By operation: its factors that run through the samples of the batch. The batch of an input goes on to the values
/// that are computed from it; where a dimension has several factors, the batch is the outermost one.
static std::vector<llvm::SmallVector<int, 1>> batchFactors(const Problem &problem) {
  std::vector<llvm::SmallVector<int, 1>> batched(problem.tensors.size()), result(problem.ops.size()); // dimensions; factors
  for (auto [tensor, dim] : problem.batchDims)
    batched[tensor].push_back(dim);
  for (auto [op, found] : llvm::zip(problem.ops, result)) {
    for (auto [t, dims] : llvm::zip(op.operands, op.rule.operands))
      for (int d : batched[t])
        if (!dims[d].empty() && !llvm::is_contained(found, dims[d].front()))
          found.push_back(dims[d].front());
    for (auto [t, dims] : llvm::zip(op.results, op.rule.results))
      for (auto [d, factors] : llvm::enumerate(dims))
        if (!factors.empty() && llvm::is_contained(found, factors.front()))
          batched[t].push_back(d);
  }
  return result;
}

/// The share of the step's FLOPs in operations that shard the batch over the axis; without FLOPs, of its operations.
static double splitsBatch(const Problem &problem, const Plan &plan, const std::vector<llvm::SmallVector<int, 1>> &batch,
                          int axis) {
  double all[2] = {}, split[2] = {}; // by FLOPs, by number
  for (auto [op, factors, own] : llvm::zip(problem.ops, plan.ops, batch)) {
    if (op.forward || op.seldom)
      continue;
    const bool splits =
        llvm::any_of(own, [&, &factors = factors](int f) { return llvm::is_contained(factors[f], axis); });
    const double weights[2] = {(double)op.flops, 1};
    for (int by : {0, 1}) {
      all[by] += weights[by];
      split[by] += splits ? weights[by] : 0;
    }
  }
  return all[0] > 0 ? split[0] / all[0] : all[1] > 0 ? split[1] / all[1] : 0;
}

namespace {

/// What contractions of the step read of parameters that are sharded along an axis.
struct UseOfShards {
  double inPlace = 0;   // bytes, without a gather, by all of them
  double gathered = 0;  // elements of the parameters that any of them reads gathered
  bool experts = false; // the sharded factor also occurs in the other operand and the result, unlike rows or columns of one matrix
};
} // namespace

static UseOfShards useOfShards(const Problem &problem, const Mesh &mesh, const Plan &plan, int axis) {
  UseOfShards result;
  std::vector<bool> sharded, seen(problem.tensors.size()); // of parameters: as it lies; gathered
  for (const Sharding &sharding : plan.tensors)
    sharded.push_back(sharding.splits(axis));
  for (auto [op, factors] : llvm::zip(problem.ops, plan.ops)) {
    if (op.forward || op.seldom)
      continue;
    for (auto [i, t] : llvm::enumerate(op.results))
      if (problem.tensors[t].weight)
        sharded[t] = resultSharding(op, mesh, factors, i).splits(axis);
    if (!llvm::any_of(op.rule.factors, [](const auto &f) { return f.reduction.has_value(); }))
      continue;
    for (auto [i, t] : llvm::enumerate(op.operands)) {
      const Problem::Tensor &tensor = problem.tensors[t];
      if (!tensor.weight)
        continue;
      if (!operandSharding(op, mesh, factors, i).splits(axis)) {
        if (sharded[t] && !seen[t])
          result.gathered += tensor.bytes() / (double)tensor.elementBytes;
        seen[t] = seen[t] || sharded[t];
        continue;
      }
      result.inPlace += tensor.bytes();
      auto has = [axis = axis, &factors = factors](const ShardingRule::Dims &dims) {
        return llvm::any_of(dims, [&](const auto &list) {
          return llvm::any_of(list, [&](int f) { return llvm::is_contained(factors[f], axis); });
        });
      };
      result.experts |= op.operands.size() == 2 && has(op.rule.operands[1 - i]) && has(op.rule.results[0]);
    }
  }
  return result;
}

/// What the axis shards in most of the step's FLOPs; without FLOPs, of its operations. Empty: it shards nothing.
static std::string leadingUse(const Problem &problem, const Plan &plan,
                              const std::vector<llvm::SmallVector<int, 1>> &batch, int axis) {
  std::map<std::string, std::pair<double, int>> uses; // FLOPs, number of operations
  for (auto [op, factors, own] : llvm::zip(problem.ops, plan.ops, batch)) {
    if (op.forward || op.seldom)
      continue;
    auto ofWeight = [&, &op = op](int f) {
      return llvm::any_of(llvm::zip(op.operands, op.rule.operands), [&](auto entry) {
        auto [t, dims] = entry;
        return problem.tensors[t].weight &&
               llvm::any_of(dims, [&](const auto &list) { return llvm::is_contained(list, f); });
      });
    };
    for (auto [f, axes] : llvm::enumerate(factors)) {
      if (!llvm::is_contained(axes, axis))
        continue;
      auto &[flops, count] = uses[llvm::is_contained(own, (int)f) ? "data"
                                  : op.rule.factors[f].windowed   ? "spatial"
                                  : ofWeight(f)                   ? "tensor"
                                                                  : "sequence"];
      flops += (double)op.flops;
      ++count;
    }
  }
  auto most = llvm::max_element(uses, [](const auto &a, const auto &b) { return a.second < b.second; });
  return most == uses.end() ? "" : most->first;
}

std::vector<std::string> planning::recognize(const Problem &problem, const Mesh &mesh, const Plan &plan) {
  static const std::string all[] = {"data", "ZeRO-1", "ZeRO-3", "tensor", "expert", "spatial", "sequence"};
  std::set<std::string> found;
  auto add = [&](const std::string &name) { found.insert(name); };
  using Role = Problem::Role;
  constexpr double much = 0.25, most = 0.5;
  const auto batches = batchFactors(problem);
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    if (mesh.axes[a].size == 1)
      continue;
    double split[2] = {}, bytes[2] = {}, elements = 0; // of parameters and of optimizer state; of parameters
    for (auto [t, tensor] : llvm::enumerate(problem.tensors))
      if (tensor.role == Role::parameter || tensor.role == Role::moment) {
        int kind = tensor.role == Role::moment;
        bytes[kind] += tensor.bytes();
        elements += kind == 0 ? tensor.bytes() / (double)tensor.elementBytes : 0;
        split[kind] += plan.tensors[t].splits(a) ? tensor.bytes() : 0;
      }
    const UseOfShards use = useOfShards(problem, mesh, plan, a);
    bool tensor = use.inPlace > much * bytes[0], batch = splitsBatch(problem, plan, batches, a) > much;
    if (tensor)
      add(use.experts ? "expert" : "tensor");
    const double parameters = bytes[0] > 0 ? split[0] / bytes[0] : 0, moments = bytes[1] > 0 ? split[1] / bytes[1] : 0;
    if (tensor ? use.gathered > much * elements : parameters > most)
      add("ZeRO-3");
    else if (moments - (tensor ? parameters : 0) > most) // those of parameters that are sharded are not ZeRO's work
      add("ZeRO-1");
    else if (batch)
      add("data");
    else if (!tensor)
      add(leadingUse(problem, plan, batches, (int)a));
  }
  std::vector<std::string> result;
  llvm::copy_if(all, std::back_inserter(result), [&](const std::string &name) { return found.count(name); });
  return result;
}
