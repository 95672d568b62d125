#include "passes/Planning/Propagation.h"

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;

Propagation::Propagation(const Problem &problem, const Mesh &mesh)
    : problem(problem), mesh(mesh), fixed(problem.tensors.size()), users(problem.tensors.size()),
      partners(problem.tensors.size()), queued(problem.ops.size()) {
  for (const auto &tensor : problem.tensors)
    plan.tensors.emplace_back(tensor.shape.size());
  for (auto [i, op] : llvm::enumerate(problem.ops)) {
    plan.ops.emplace_back(op.rule.factors.size());
    for (const auto *list : {&op.operands, &op.results})
      for (int tensor : *list)
        if (users[tensor].empty() || users[tensor].back() != (int)i)
          users[tensor].push_back(i);
  }
  problem.forEachTie([&](int a, int b) {
    partners[a].push_back(b);
    partners[b].push_back(a);
  });
}

void Propagation::touch(int tensor) {
  for (int op : users[tensor])
    if (!queued[op]) {
      queued[op] = true;
      work.push_back(op);
    }
}

bool Propagation::split(int tensor, int dim, int axis) {
  Sharding &sharding = plan.tensors[tensor];
  int64_t parts = mesh.parts(sharding.dims[dim]) * mesh.axes[axis].size;
  if (fixed[tensor] || sharding.splits(axis) || problem.tensors[tensor].shape[dim] % parts != 0)
    return false;
  Axes axes = sharding.dims[dim];
  axes.push_back(axis);
  offer(tensor, dim, axes);
  return true;
}

bool Propagation::splitFactor(int op, int factor, int axis) {
  Axes axes = plan.ops[op][factor];
  axes.push_back(axis);
  if (!mayAssign(op, factor, axes))
    return false;
  plan.ops[op][factor] = axes;
  push(op);
  return true;
}

/// Extends the axes of a dimension, if its axes are a prefix of `axes` and the sharding remains valid; partners follow.
void Propagation::offer(int tensor, int dim, AxesRef axes) {
  Sharding &sharding = plan.tensors[tensor];
  Axes &old = sharding.dims[dim];
  if (fixed[tensor] || axes.size() <= old.size() || axes.take_front(old.size()) != AxesRef(old) ||
      problem.tensors[tensor].shape[dim] % mesh.parts(axes) != 0)
    return;
  for (int axis : axes.drop_front(old.size()))
    if (sharding.splits(axis))
      return;
  old.assign(axes.begin(), axes.end());
  touch(tensor);
  for (int partner : partners[tensor])
    offer(partner, dim, axes);
}

bool Propagation::mayAssign(int op, int factor, AxesRef axes) const {
  FactorAxes trial = plan.ops[op];
  trial[factor].assign(axes.begin(), axes.end());
  return isValid(mesh, problem.ops[op].rule, trial);
}

/// Derives the axes of an operation's factors from its tensors.
void Propagation::pull(int op) {
  const Problem::Op &o = problem.ops[op];
  auto look = [&](int tensor, const ShardingRule::Dims &dims) {
    const Sharding &sharding = plan.tensors[tensor];
    auto isKnown = [&](const auto &dim) {
      const auto &[axes, factors] = dim;
      return axes.empty() || (factors.size() == 1 && plan.ops[op][factors[0]].size() >= axes.size());
    };
    if (llvm::all_of(llvm::zip(sharding.dims, dims), isKnown))
      return;
    for (auto [factor, axes] : llvm::enumerate(factorsOf(mesh, o.rule, dims, sharding))) {
      Axes &old = plan.ops[op][factor];
      AxesRef wanted = axes;
      if (wanted.size() > old.size() && wanted.take_front(old.size()) == AxesRef(old) &&
          mayAssign(op, (int)factor, wanted))
        old.assign(wanted.begin(), wanted.end());
    }
  };
  for (auto [tensor, dims] : llvm::zip(o.operands, o.rule.operands))
    look(tensor, dims);
  for (auto [tensor, dims] : llvm::zip(o.results, o.rule.results))
    look(tensor, dims);
}

void Propagation::push(int op) {
  const Problem::Op &o = problem.ops[op];
  auto tell = [&](int tensor, const ShardingRule::Dims &dims) {
    for (auto [d, factors] : llvm::enumerate(dims))
      if (auto axes = factorsToAxes(mesh, o.rule, factors, plan.ops[op]); axes && !axes->empty())
        offer(tensor, (int)d, *axes);
  };
  for (auto [tensor, dims] : llvm::zip(o.operands, o.rule.operands))
    tell(tensor, dims);
  for (auto [tensor, dims] : llvm::zip(o.results, o.rule.results))
    tell(tensor, dims);
}

void Propagation::spread() {
  while (!work.empty()) {
    int op = work.front();
    work.pop_front();
    queued[op] = false;
    pull(op);
    push(op);
  }
}
