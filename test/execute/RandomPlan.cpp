#include "test/execute/RandomPlan.h"

#include "passes/Planning/Propagation.h"

#include <map>

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;
using namespace divisi::test;

Mesh test::randomMesh(Draw &draw) {
  static const std::initializer_list<std::pair<int64_t, int64_t>> sizes = {
      {2, 0}, {2, 0}, {4, 0}, {3, 0}, {8, 0}, {6, 0}, {1, 0}, {5, 0}, {2, 2},
      {2, 2}, {2, 2}, {4, 2}, {2, 4}, {3, 2}, {2, 3}, {1, 4}, {4, 1}, {2, 1}};
  auto [first, second] = draw.of(sizes);
  Mesh mesh{{{"data", first}}};
  if (second)
    mesh.axes.push_back({"model", second});
  return mesh;
}

/// The axes, each once, in a random order.
static Axes shuffled(const Mesh &mesh, Draw &draw) {
  std::vector<int> axes;
  for (size_t i = 0; i < mesh.axes.size(); ++i)
    axes.insert(axes.begin() + draw.below((int64_t)axes.size() + 1), (int)i);
  Axes result;
  result.append(axes.begin(), axes.end());
  return result;
}

static FactorAxes randomFactors(const ShardingRule &rule, const Mesh &mesh, Draw &draw) {
  FactorAxes factors(rule.factors.size());
  for (int axis : shuffled(mesh, draw))
    for (int tries = draw.chance(0.85) ? 4 : 0; tries > 0 && !factors.empty(); --tries) {
      FactorAxes trial = factors;
      draw.in(trial).push_back(axis);
      if (isValid(mesh, rule, trial)) {
        factors = trial;
        break;
      }
    }
  return factors;
}

static Sharding randomSharding(llvm::ArrayRef<int64_t> shape, const Mesh &mesh, Draw &draw) {
  Sharding sharding(shape.size());
  for (int axis : shuffled(mesh, draw)) {
    if (shape.empty() || draw.chance(0.2))
      continue;
    int64_t d = draw.below((int64_t)shape.size());
    if (shape[d] % (mesh.parts(sharding.dims[d]) * mesh.axes[axis].size) == 0)
      sharding.dims[d].push_back(axis);
  }
  return sharding;
}

/// Some shardings, propagated through the program.
static Plan coherent(const Problem &problem, const Mesh &mesh, Draw &draw) {
  Propagation propagation(problem, mesh);
  for (int64_t left = draw.between(0, 8); left > 0; --left) {
    int axis = (int)draw.below((int64_t)mesh.axes.size());
    if (draw.chance(0.4)) {
      int64_t tensor = draw.below((int64_t)problem.tensors.size());
      if (auto rank = (int64_t)problem.tensors[tensor].shape.size())
        propagation.split((int)tensor, (int)draw.below(rank), axis);
    } else {
      int64_t op = draw.below((int64_t)problem.ops.size());
      if (auto factors = (int64_t)problem.ops[op].rule.factors.size())
        propagation.splitFactor((int)op, (int)draw.below(factors), axis);
    }
    propagation.spread();
  }
  return propagation.take();
}

Plan test::randomPlan(const Problem &problem, const Mesh &mesh, Draw &draw) {
  Plan plan = coherent(problem, mesh, draw);
  double own = draw.of<double>({0, 0.05, 0.3, 1});
  for (auto [op, factors] : llvm::zip(problem.ops, plan.ops))
    if (draw.chance(own))
      factors = randomFactors(op.rule, mesh, draw);
  std::map<std::string, Sharding> known;
  for (auto [tensor, sharding] : llvm::zip(problem.tensors, plan.tensors)) {
    if (tensor.name.empty())
      continue;
    if (draw.chance(own))
      sharding = randomSharding(tensor.shape, mesh, draw);
    sharding = known.try_emplace(tensor.name, sharding).first->second;
  }
  return plan;
}
