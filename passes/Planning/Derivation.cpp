#include "passes/Planning/Derivation.h"

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;
using llvm::ArrayRef;

Derivation::Derivation(const Problem &problem, const Mesh &mesh, const Plan &spread)
    : problem(problem), mesh(mesh), spread(spread), rank(problem.ops.size()), late(problem.ops.size()),
      producer(problem.tensors.size(), {-1, -1}), users(problem.tensors.size()) {
  for (auto [i, op] : llvm::enumerate(problem.ops)) {
    if (isFree(i)) {
      late[i] = true;
      continue;
    }
    for (auto [r, tensor] : llvm::enumerate(op.results))
      producer[tensor] = {(int)i, (int)r};
    for (auto [o, tensor] : llvm::enumerate(op.operands))
      users[tensor].push_back({(int)i, (int)o});
    late[i] = llvm::all_of(op.operands, [&](int t) { return problem.tensors[t].splat || (producer[t].first >= 0 && late[producer[t].first]); }) ||
              op.kind == "graph.broadcast";
  }
  for (size_t i = 0; i < problem.ops.size(); ++i)
    if (!late[i])
      sequence.push_back(i);
  for (size_t i = problem.ops.size(); i-- > 0;)
    if (late[i])
      sequence.push_back(i);
  for (auto [position, op] : llvm::enumerate(sequence))
    rank[op] = position;
}

bool Derivation::isFree(int op) const {
  return llvm::all_of(problem.ops[op].results, [&](int t) { return problem.tensors[t].splat; });
}

void Derivation::add(int op, FactorAxes &factors, const ShardingRule::Dims &dims, const Sharding &sharding) const {
  for (auto [factor, axes] : llvm::enumerate(factorsOf(mesh, problem.ops[op].rule, dims, sharding)))
    extend(op, factors, factor, axes);
}

void Derivation::extend(int op, FactorAxes &factors, size_t factor, AxesRef axes) const {
  AxesRef old = factors[factor];
  if (axes.size() <= old.size() || axes.take_front(old.size()) != old)
    return;
  FactorAxes trial = factors;
  trial[factor].assign(axes.begin(), axes.end());
  if (isValid(mesh, problem.ops[op].rule, trial))
    factors = std::move(trial);
}

FactorAxes Derivation::fromOperands(int op, ArrayRef<FactorAxes> decided) const {
  const Problem::Op &o = problem.ops[op];
  FactorAxes factors(o.rule.factors.size());
  llvm::SmallVector<int> pending; // perhaps several times
  for (auto [tensor, dims] : llvm::zip(o.operands, o.rule.operands)) {
    auto [from, result] = producer[tensor];
    if (problem.tensors[tensor].splat)
      continue;
    if (from < 0)
      add(op, factors, dims, spread.tensors[tensor]);
    else if (isDecided(from, op)) {
      const ShardingRule &rule = problem.ops[from].rule;
      auto sharding = shardingOf(mesh, rule, rule.results[result], decided[from]);
      if (!sharding)
        continue;
      add(op, factors, dims, *sharding);
      if (auto contracted = contractedAxes(rule, decided[from]))
        llvm::append_range(pending, pendingIn(*sharding, contracted->first));
    }
  }
  // What is still to be summed over an axis is scattered along it where propagation says so.
  for (auto [factor, axes] : llvm::enumerate(spread.ops[op])) {
    AxesRef wanted = axes, old = factors[factor];
    if (wanted.size() > old.size() &&
        llvm::all_of(wanted.drop_front(old.size()), [&](int axis) { return llvm::is_contained(pending, axis); }))
      extend(op, factors, factor, axes);
  }
  return factors;
}

FactorAxes Derivation::fromUsers(int op, ArrayRef<FactorAxes> decided) const {
  const Problem::Op &o = problem.ops[op];
  FactorAxes factors(o.rule.factors.size());
  for (auto [tensor, dims] : llvm::zip(o.results, o.rule.results))
    for (auto [user, operand] : users[tensor])
      if (isDecided(user, op))
        if (auto sharding = shardingOf(mesh, problem.ops[user].rule, problem.ops[user].rule.operands[operand], decided[user]))
          add(op, factors, dims, *sharding);
  return factors;
}

FactorAxes Derivation::of(int op, ArrayRef<FactorAxes> decided) const {
  const Problem::Op &o = problem.ops[op];
  auto differs = [&](int neighbour) {
    return neighbour >= 0 && isDecided(neighbour, op) && decided[neighbour] != spread.ops[neighbour];
  };
  if (!late[op])
    return llvm::any_of(o.operands, [&](int t) { return differs(producer[t].first); }) ? fromOperands(op, decided)
                                                                                       : spread.ops[op];
  bool differ = llvm::any_of(o.results, [&](int t) {
    return llvm::any_of(users[t], [&](auto &use) { return differs(use.first); });
  });
  return differ ? fromUsers(op, decided) : spread.ops[op];
}
