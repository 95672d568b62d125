#include "passes/Planning/Expansion.h"

#include "dialects/Dist/Reshard.h"

#include <cmath>
#include <utility>

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;

/// The axes over which an operation's results are pending: contracted ones, and those that pass through.
static std::pair<Axes, Reduction> pendingOf(const Problem::Op &op, const FactorAxes &factors, AxesRef passed,
                                            Reduction kind) {
  auto pending = contractedAxes(op.rule, factors).value();
  if (!passed.empty())
    pending.second = kind;
  pending.first.append(passed.begin(), passed.end());
  llvm::sort(pending.first);
  return pending;
}

Sharding planning::operandSharding(const Problem::Op &op, const Mesh &mesh, const FactorAxes &factors, size_t operand,
                                   AxesRef passed, Reduction kind) {
  Sharding sharding = shardingOf(mesh, op.rule, op.rule.operands[operand], factors).value();
  if ((int)operand == op.rule.accumulator)
    std::tie(sharding.pending, sharding.kind) = pendingOf(op, factors, passed, kind);
  else if (!passed.empty())
    sharding.pending = Axes(passed), sharding.kind = kind;
  return sharding;
}

Sharding planning::resultSharding(const Problem::Op &op, const Mesh &mesh, const FactorAxes &factors, size_t result,
                                  AxesRef passed, Reduction kind) {
  Sharding sharding = shardingOf(mesh, op.rule, op.rule.results[result], factors).value();
  std::tie(sharding.pending, sharding.kind) = pendingOf(op, factors, passed, kind);
  sharding.pending = pendingIn(sharding, sharding.pending);
  return sharding;
}

namespace {

class Expander {
public:
  Expander(const Problem &problem, const Mesh &mesh, const Plan &plan)
      : problem(problem), mesh(mesh), plan(plan), wants(problem.tensors.size()) {}

  Expansion run() {
    countUsers();
    result.produced.assign(problem.tensors.size(), -1);
    result.versions.reserve(2 * problem.tensors.size());
    std::vector<bool> made(problem.tensors.size());
    for (const Problem::Op &op : problem.ops)
      for (int tensor : op.results)
        made[tensor] = true;
    for (size_t t = 0; t < problem.tensors.size(); ++t)
      if (!made[t])
        produce(t, plan.tensors[t]);
    for (size_t i = 0; i < problem.ops.size(); ++i)
      split(i);
    for (const Problem::Output &output : problem.outputs) {
      const Problem::Tensor &tensor = problem.tensors[output.tensor];
      want({output.tensor, -1, output.state >= 0 ? plan.tensors[output.state] : Sharding(tensor.shape.size())});
      outputs.push_back(wants[output.tensor].size() - 1);
    }
    for (size_t t = 0; t < problem.tensors.size(); ++t)
      derive(t);
    collect();
    return std::move(result);
  }

private:
  struct Want {
    int tensor, user;
    Sharding sharding;
    int version = -1;
  };

  void want(Want entry) { wants[entry.tensor].push_back(std::move(entry)); }

  void countUsers() {
    users.assign(problem.tensors.size(), 0);
    std::vector<int> last(problem.tensors.size(), -1);
    for (auto [i, op] : llvm::enumerate(problem.ops))
      for (int tensor : op.operands)
        if (std::exchange(last[tensor], (int)i) != (int)i)
          ++users[tensor];
    for (const Problem::Output &output : problem.outputs)
      ++users[output.tensor];
  }

  void produce(int tensor, Sharding sharding) {
    result.produced[tensor] = result.versions.size();
    result.versions.push_back({tensor, std::move(sharding)});
  }
  const Sharding &sharding(int tensor) const { return result.versions[result.produced[tensor]].sharding; }

  void split(int number) {
    const Problem::Op &op = problem.ops[number];
    const FactorAxes &factors = plan.ops[number];
    auto contracted = contractedAxes(op.rule, factors).value();
    Reduction kind = contracted.second;
    Axes passed = passThrough(op, factors, kind);
    if (!plan.lacking.empty() &&
        llvm::any_of(plan.lacking[number], [&](int a) { return llvm::is_contained(passed, a); }))
      passed.clear(), kind = contracted.second;
    if (!contracted.first.empty() && kind != contracted.second)
      passed.clear(), kind = contracted.second;
    auto &positions = operandWants.emplace_back();
    for (auto [i, tensor] : llvm::enumerate(op.operands)) {
      want({tensor, number, operandSharding(op, mesh, factors, i, passed, kind)});
      positions.push_back(wants[tensor].size() - 1);
    }
    for (auto [i, tensor] : llvm::enumerate(op.results))
      produce(tensor, problem.tensors[tensor].splat ? Sharding(problem.tensors[tensor].shape.size())
                                                    : resultSharding(op, mesh, factors, i, passed, kind));
  }

  /// Axes over which the operands may stay pending: the same for all operands, without other users, and without a
  /// larger result.
  Axes passThrough(const Problem::Op &op, const FactorAxes &factors, Reduction &kind) const {
    if (op.rule.linear != Linear::all && op.rule.linear != Linear::movement)
      return {};
    std::vector<Sharding> shardings;
    int64_t largest = 0;
    for (int tensor : op.operands) {
      if (problem.tensors[tensor].zero && op.rule.linear == Linear::all)
        continue;
      shardings.push_back(sharding(tensor));
      if (shardings.back().pending.empty() || users[tensor] > 1)
        return {};
      largest = std::max(largest, problem.tensors[tensor].bytes() / problem.tensors[tensor].elementBytes);
    }
    const Problem::Tensor &after = problem.tensors[op.results[0]];
    Reduction passedKind = kind;
    Axes passed = passingAxes(op.rule, shardings, passedKind);
    for (const Axes &axes : factors)
      for (int axis : axes)
        if (llvm::is_contained(passed, axis))
          return {};
    if (passed.empty() || after.bytes() / after.elementBytes > largest)
      return {};
    kind = passedKind;
    return passed;
  }

  /// Bytes that a device sends for a reshard, and the number of collectives.
  std::pair<double, int> distance(int tensor, const Sharding &from, const Sharding &to) const {
    int64_t local = problem.tensors[tensor].bytes();
    for (const Axes &axes : from.dims)
      local /= mesh.parts(axes);
    std::pair<double, int> sum{0, 0};
    for (const ReshardStep &step : planReshard(from, to)) {
      double parts = mesh.parts(step.axes), bytes = bytesOfStep(mesh, step, local);
      bool slice = step.kind == ReshardStep::Kind::slice;
      sum.first += bytes * (parts - 1) / parts * (step.kind == ReshardStep::Kind::allReduce ? 2 : 1);
      sum.second += !slice;
    }
    return sum;
  }

  /// Whether the reshard gathers shards of state, or of what is made of parameters alone, such as weights in 16 bits.
  bool gathersState(int tensor, const Sharding &to) const {
    if (!(problem.tensors[tensor].named() || problem.tensors[tensor].weight) || !to.pending.empty())
      return false;
    const Sharding &from = sharding(tensor);
    for (size_t a = 0; a < mesh.axes.size(); ++a)
      if (from.splits(a) && !to.splits(a))
        return true;
    return false;
  }

  /// Derives all requested versions of a tensor: always the missing version that is nearest to an existing one comes
  /// next.
  void derive(int tensor) {
    std::vector<int> there = {result.produced[tensor]};
    std::vector<Want *> open;
    for (Want &entry : wants[tensor]) {
      if (problem.tensors[tensor].splat && (entry.sharding.pending.empty() || problem.tensors[tensor].zero)) {
        entry.version = entry.sharding == result.versions[there[0]].sharding
                            ? there[0]
                            : add({tensor, entry.sharding, -1, entry.user});
        continue;
      }
      if (entry.sharding == sharding(tensor)) {
        entry.version = there[0];
        continue;
      }
      if (entry.user >= 0 && gathersState(tensor, entry.sharding)) {
        entry.version = add({tensor, entry.sharding, result.produced[tensor], entry.user});
        continue;
      }
      open.push_back(&entry);
    }
    while (!open.empty()) {
      std::pair<double, int> least{INFINITY, 0};
      int source = -1;
      const Want *next = nullptr;
      for (const Want *entry : open)
        for (int version : there) {
          // A value that was reduced cannot become partial again.
          const Sharding &from = result.versions[version].sharding;
          auto isPending = [&](int axis) { return llvm::is_contained(from.pending, axis); };
          if (version != there[0] && !llvm::all_of(entry->sharding.pending, isPending))
            continue;
          bool isOnly = open.size() == 1 && there.size() == 1;
          auto length = isOnly ? std::make_pair(0.0, 0) : distance(tensor, from, entry->sharding);
          if (length < least)
            least = length, source = version, next = entry;
        }
      Sharding found = next->sharding;
      int version = add({tensor, found, source, -1});
      there.push_back(version);
      llvm::erase_if(open, [&](Want *entry) {
        bool same = entry->sharding == found;
        if (same)
          entry->version = version;
        return same;
      });
    }
  }

  int add(Expansion::Version version) {
    result.versions.push_back(std::move(version));
    return result.versions.size() - 1;
  }

  void collect() {
    for (auto [op, positions] : llvm::zip(problem.ops, operandWants)) {
      auto &list = result.operands.emplace_back();
      for (auto [tensor, position] : llvm::zip(op.operands, positions))
        list.push_back(wants[tensor][position].version);
    }
    for (auto [output, position] : llvm::zip(problem.outputs, outputs))
      result.outputs.push_back(wants[output.tensor][position].version);
  }

  const Problem &problem;
  const Mesh &mesh;
  const Plan &plan;
  std::vector<int> users;
  std::vector<std::vector<Want>> wants;                   // by tensor
  std::vector<llvm::SmallVector<size_t, 4>> operandWants; // by operation: positions in `wants`
  std::vector<size_t> outputs;
  Expansion result;
};
} // namespace

Plan planning::unsplit(const Problem &problem) {
  Plan plan;
  for (const auto &tensor : problem.tensors)
    plan.tensors.emplace_back(tensor.shape.size());
  for (const auto &op : problem.ops)
    plan.ops.emplace_back(op.rule.factors.size());
  return plan;
}

Expansion planning::expand(const Problem &problem, const Mesh &mesh, const Plan &plan) {
  return Expander(problem, mesh, plan).run();
}
