#include "passes/Planning/Search/GroupStrategies.h"

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;

FactorAxes planning::memberFactors(const Group &group, size_t member, const GroupStrategy &strategy) {
  FactorAxes factors;
  for (int factor : group.factorOf[member])
    factors.push_back(strategy.factors[factor]);
  return factors;
}

/// Whether sums reach an accumulating operand that holds a value already.
static bool spoilsAccumulator(const Problem &problem, const Problem::Op &op, const FactorAxes &factors) {
  return op.rule.accumulator >= 0 && !problem.tensors[op.operands[op.rule.accumulator]].zero &&
         !contractedAxes(op.rule, factors)->first.empty();
}

std::vector<GroupStrategy> planning::strategiesOf(const Problem &problem, const Mesh &mesh, const Group &group) {
  std::vector<GroupStrategy> result;
  GroupStrategy now{FactorAxes(group.factors), {}};
  auto allowed = [&] {
    for (auto [m, op] : llvm::enumerate(group.ops)) {
      FactorAxes factors = memberFactors(group, m, now);
      if (!isValid(mesh, problem.ops[op].rule, factors) || spoilsAccumulator(problem, problem.ops[op], factors))
        return false;
    }
    return true;
  };
  // Axis by axis: to nothing, to a factor (the earlier axis is the more major one), or passed.
  auto assign = [&](auto &self, size_t axis) -> void {
    if (axis == mesh.axes.size()) {
      result.push_back(now);
      return;
    }
    self(self, axis + 1);
    if (mesh.axes[axis].size == 1)
      return;
    for (Axes &axes : now.factors) {
      axes.push_back(axis);
      if (allowed())
        self(self, axis + 1);
      axes.pop_back();
    }
    if (group.sums) {
      now.passed.push_back(axis);
      self(self, axis + 1);
      now.passed.pop_back();
    }
  };
  assign(assign, 0);
  return result;
}

std::vector<Sharding> planning::shardingsOf(const Problem::Tensor &tensor, const Mesh &mesh) {
  std::vector<Sharding> result;
  Sharding now(tensor.shape.size());
  auto assign = [&](auto &self, size_t axis) -> void {
    if (axis == mesh.axes.size()) {
      result.push_back(now);
      return;
    }
    self(self, axis + 1);
    if (mesh.axes[axis].size == 1)
      return;
    for (auto [d, axes] : llvm::enumerate(now.dims)) {
      if (tensor.shape[d] % (mesh.parts(axes) * mesh.axes[axis].size) != 0)
        continue;
      axes.push_back(axis);
      self(self, axis + 1);
      axes.pop_back();
    }
  };
  assign(assign, 0);
  return result;
}
