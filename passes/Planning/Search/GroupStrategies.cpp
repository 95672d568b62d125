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

/// Whether a partial sum would be added to an accumulating operand that has a value already.
static bool spoilsAccumulator(const Problem &problem, const Problem::Op &op, const FactorAxes &factors) {
  return op.rule.accumulator >= 0 && !problem.tensors[op.operands[op.rule.accumulator]].zero &&
         !contractedAxes(op.rule, factors)->first.empty();
}

/// Calls `done` for every way to assign each axis of the mesh to at most one of the lists (earlier axes are more
/// major), the empty way first. `allowed(l)` says whether list l may have its current axes.
static void forEachAssignment(const Mesh &mesh, llvm::MutableArrayRef<Axes> lists,
                              llvm::function_ref<bool(size_t)> allowed, llvm::function_ref<void()> done,
                              size_t axis = 0) {
  if (axis == mesh.axes.size())
    return done();
  forEachAssignment(mesh, lists, allowed, done, axis + 1);
  if (mesh.axes[axis].size == 1)
    return;
  for (auto [l, axes] : llvm::enumerate(lists)) {
    axes.push_back(axis);
    if (allowed(l))
      forEachAssignment(mesh, lists, allowed, done, axis + 1);
    axes.pop_back();
  }
}

std::vector<GroupStrategy> planning::strategiesOf(const Problem &problem, const Mesh &mesh, const Group &group) {
  std::vector<GroupStrategy> result;
  FactorAxes lists(group.factors + group.sums); // those of the factors, then the pending sums that pass through
  auto current = [&] {
    GroupStrategy strategy{FactorAxes(lists.begin(), lists.begin() + group.factors), {}};
    if (group.sums)
      strategy.passed = lists.back();
    return strategy;
  };
  auto allowed = [&](size_t list) {
    if (list == (size_t)group.factors)
      return true;
    GroupStrategy strategy = current();
    for (auto [m, op] : llvm::enumerate(group.ops)) {
      if (!llvm::is_contained(group.factorOf[m], (int)list))
        continue; // it has been looked at before
      FactorAxes factors = memberFactors(group, m, strategy);
      if (!isValid(mesh, problem.ops[op].rule, factors) || spoilsAccumulator(problem, problem.ops[op], factors))
        return false;
    }
    return true;
  };
  forEachAssignment(mesh, lists, allowed, [&] { result.push_back(current()); });
  return result;
}

std::vector<Sharding> planning::shardingsOf(const Problem::Tensor &tensor, const Mesh &mesh) {
  std::vector<Sharding> result;
  Sharding now(tensor.shape.size());
  auto allowed = [&](size_t dim) { return tensor.shape[dim] % mesh.parts(now.dims[dim]) == 0; };
  forEachAssignment(mesh, now.dims, allowed, [&] { result.push_back(now); });
  return result;
}
