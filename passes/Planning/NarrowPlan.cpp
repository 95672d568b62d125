#include "passes/Planning/NarrowPlan.h"

#include "dialects/Dist/Tasks.h"

#include <set>

using namespace mlir;
using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;

namespace {

/// The axes that operations and tensors lack.
class Lacking {
public:
  Lacking(const Problem &problem, const Mesh &mesh, const StageAxes &axes, const StageNumbers &stages)
      : ops(problem.ops.size()), tensors(problem.tensors.size()) {
    auto lackingAt = [&](int stage) {
      Axes list = axes.lacking(stage, mesh);
      return std::set<int>(list.begin(), list.end());
    };
    std::set<int> somewhere;
    for (size_t stage = 0; stage < axes.size(); ++stage)
      somewhere.merge(lackingAt(stage));
    // Outputs that belong to no stage may be used on any stage.
    for (const Problem::Output &output : problem.outputs)
      tensors[output.tensor].merge(output.state < 0 || stages.tensors[output.state] < 0
                                       ? std::set<int>(somewhere)
                                       : lackingAt(stages.tensors[output.state]));
    for (size_t i = problem.ops.size(); i-- > 0;) { // from the last to the first: users before producers
      if (stages.ops[i] >= 0)
        ops[i] = lackingAt(stages.ops[i]);
      else
        for (int t : problem.ops[i].results)
          ops[i].insert(tensors[t].begin(), tensors[t].end());
      for (int t : problem.ops[i].operands)
        tensors[t].insert(ops[i].begin(), ops[i].end());
    }
    for (size_t i = 0; i < problem.ops.size(); ++i) // a value has the sharding of its producer
      for (int t : problem.ops[i].results)
        tensors[t] = ops[i];
    for (size_t t = 0; t < problem.tensors.size(); ++t)
      if (stages.tensors[t] >= 0)
        tensors[t] = lackingAt(stages.tensors[t]);
    for (auto [a, b] : problem.same)
      tensors[a].insert(tensors[b].begin(), tensors[b].end());
    for (auto [a, b] : problem.same)
      tensors[b].insert(tensors[a].begin(), tensors[a].end());
  }

  std::vector<std::set<int>> ops, tensors;
};

void remove(const std::set<int> &lacking, Axes &axes) {
  llvm::erase_if(axes, [&](int axis) { return lacking.count(axis); });
}
} // namespace

Plan planning::narrow(const Problem &problem, const Mesh &mesh, const StageAxes &axes, const StageNumbers &stages,
                      Plan plan) {
  Lacking lacking(problem, mesh, axes, stages);
  for (auto [factors, mine] : llvm::zip(plan.ops, lacking.ops))
    for (Axes &list : factors)
      remove(mine, list);
  for (auto [sharding, mine] : llvm::zip(plan.tensors, lacking.tensors)) {
    for (Axes &list : sharding.dims)
      remove(mine, list);
    remove(mine, sharding.pending);
  }
  plan.lacking.clear();
  for (const std::set<int> &mine : lacking.ops)
    plan.lacking.emplace_back().append(mine.begin(), mine.end());
  return plan;
}

Plan planning::narrow(ModuleOp module, const ModuleProblem &problem, const Mesh &mesh, const Plan &plan) {
  StageAxes axes;
  StageNumbers stages{std::vector<int>(problem.ops.size(), -1), std::vector<int>(problem.types.size(), -1)};
  for (auto function : module.getOps<func::FuncOp>()) {
    if (axes.empty())
      axes = StageAxes::of(function);
    if (function.isDeclaration())
      continue;
    for (Operation &op : function.getBody().front())
      if (auto number = problem.opOf.find(&op); number != problem.opOf.end() && op.hasAttr(dist::names::stage))
        stages.ops[number->second] = stageOf(&op);
    for (BlockArgument argument : function.getArguments())
      if (function.getArgAttr(argument.getArgNumber(), dist::names::stage))
        stages.tensors[problem.tensorOf.lookup(argument)] = stageOf(argument);
  }
  return axes.empty() ? plan : narrow(problem.problem, mesh, axes, stages, plan);
}
