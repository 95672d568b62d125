#include "passes/Planning/Cost/StepModel.h"

#include <set>

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;
using Role = Problem::Role;

namespace {

class Step {
public:
  Step(const Problem &problem, const Groups &groups, const CostModel &costs, const Plan &plan,
       const Expansion &expansion)
      : problem(problem), groups(groups), costs(costs), mesh(costs.mesh), plan(plan), all(expansion),
        ready(all.versions.size()), from(all.versions.size()), onDemand(problem.ops.size()),
        follows(all.versions.size()) {}

  Prediction run() {
    result.operations.assign(problem.ops.size(), 0);
    findNeeded();
    for (auto [v, version] : llvm::enumerate(all.versions))
      if (version.source >= 0 && needed[v])
        (version.user >= 0 ? onDemand[version.user] : follows[version.source]).push_back(v);
    timeGroups();
    for (size_t t = 0; t < problem.tensors.size(); ++t)
      if (groups.maker[t] < 0)
        spread(all.produced[t], -1);
    for (size_t i = 0; i < problem.ops.size(); ++i)
      if (groups.groupOf[i] >= 0)
        execute(i);
    for (auto [output, version] : llvm::zip(problem.outputs, all.outputs))
      if (groups.maker[output.tensor] >= 0 && !output.seldom)
        await(version);
    result.seconds = std::max(now, network);
    measureMemory();
    return std::move(result);
  }

private:
  /// The versions that every step reads, and what they come from.
  void findNeeded() {
    needed.assign(all.versions.size(), false);
    for (size_t i = 0; i < problem.ops.size(); ++i)
      if (groups.groupOf[i] >= 0)
        for (int v : all.operands[i])
          needed[v] = true;
    for (auto [output, version] : llvm::zip(problem.outputs, all.outputs))
      if (!output.seldom)
        needed[version] = true;
    for (size_t v = all.versions.size(); v-- > 0;)
      if (needed[v] && all.versions[v].source >= 0)
        needed[all.versions[v].source] = true;
  }

  /// The time of every group, at its first operation.
  void timeGroups() {
    std::vector<int> readBy(problem.tensors.size(), -1); // the last group that counted it
    for (auto [g, group] : llvm::enumerate(groups.groups)) {
      double flops = 0, bytes = 0;
      for (int i : group.ops) {
        const Problem::Op &op = problem.ops[i];
        flops += localFlops(op, mesh, plan.ops[i]);
        for (auto [t, version] : llvm::zip(op.operands, all.operands[i])) {
          bool inside = groups.maker[t] >= 0 && groups.groupOf[groups.maker[t]] == (int)g;
          if (inside || problem.tensors[t].splat || readBy[t] == (int)g)
            continue;
          readBy[t] = g;
          bytes += localBytes(problem.tensors[t], mesh, all.versions[version].sharding);
        }
        for (int t : op.results)
          if (groups.outside[t])
            bytes += localBytes(problem.tensors[t], mesh, all.versions[all.produced[t]].sharding);
      }
      double seconds = costs.compute(flops, bytes, precisionOf(problem, problem.ops[group.ops[0]]));
      result.operations[group.ops[0]] = seconds;
      result.compute += seconds;
    }
  }

  /// Starts the reshards that follow from a version, as soon as it is there.
  void spread(int version, int operation) {
    for (int next : follows[version]) {
      communicate(next, operation);
      spread(next, operation);
    }
  }

  void communicate(int version, int operation) {
    const auto &entry = all.versions[version];
    const auto &before = all.versions[entry.source].sharding;
    double done = ready[entry.source];
    int64_t local = localBytes(problem.tensors[entry.tensor], mesh, before);
    for (const ReshardStep &step : planReshard(before, entry.sharding)) {
      int64_t bytes = bytesOfStep(mesh, step, local);
      if (step.kind == ReshardStep::Kind::slice)
        continue;
      double seconds = costs.step(step, bytes);
      done = network = std::max(network, done) + seconds;
      result.communication += seconds;
      result.bytesSent += bytesSent(step.kind, mesh.parts(step.axes), bytes);
      from[version].push_back(result.collectives.size());
      result.collectives.push_back({version, step, bytes, seconds, 0, operation});
    }
    ready[version] = done;
  }

  void await(int version) {
    if (ready[version] <= now)
      return;
    double wait = ready[version] - now;
    now = ready[version];
    result.waited += wait;
    // The wait belongs to the last collectives on the way here.
    for (int v = version; v >= 0 && wait > 0; v = all.versions[v].source)
      for (int c : llvm::reverse(from[v])) {
        double part = std::min(wait, result.collectives[c].seconds - result.collectives[c].waited);
        result.collectives[c].waited += part;
        wait -= part;
      }
  }

  void execute(int number) {
    for (int version : onDemand[number]) {
      ready[all.versions[version].source] = std::max(ready[all.versions[version].source], now);
      communicate(version, number);
    }
    for (int version : all.operands[number])
      await(version);
    now += result.operations[number];
    for (int tensor : problem.ops[number].results) {
      ready[all.produced[tensor]] = now;
      spread(all.produced[tensor], number);
    }
  }

  /// Which versions lie in memory; what others are computed from lives until those are read.
  std::vector<bool> keepSources(std::vector<int> &dies) const {
    std::vector<bool> stored(all.versions.size(), true);
    for (size_t t = 0; t < problem.tensors.size(); ++t)
      if (groups.maker[t] >= 0)
        stored[all.produced[t]] = groups.stored[t];
    for (auto [v, version] : llvm::enumerate(all.versions))
      if (version.source >= 0 && needed[v])
        stored[version.source] = true; // what is sent
    for (size_t i = problem.ops.size(); i-- > 0;) { // what reads a value comes behind it
      const Problem::Op &op = problem.ops[i];
      for (int t : op.results)
        if (int made = all.produced[t]; groups.groupOf[i] >= 0 && !stored[made])
          for (auto [u, version] : llvm::zip(op.operands, all.operands[i]))
            if (isLarge(problem, u, t))
              dies[version] = std::max(dies[version], dies[made]);
    }
    return stored;
  }

  /// Arguments stay; everything else lives from where it is made to its last reader.
  void measureMemory() {
    size_t end = problem.ops.size();
    std::vector<int> born(all.versions.size(), -1), dies(all.versions.size(), -1);
    for (size_t i = 0; i < end; ++i) {
      if (groups.groupOf[i] < 0)
        continue;
      for (int t : problem.ops[i].results)
        born[all.produced[t]] = i;
      for (int v : all.operands[i])
        dies[v] = i;
    }
    for (auto [output, version] : llvm::zip(problem.outputs, all.outputs))
      if (groups.maker[output.tensor] >= 0)
        dies[version] = end;
    // A version is made with its source or for its user, and its source lives until then.
    for (auto [v, version] : llvm::enumerate(all.versions))
      if (version.source >= 0 && needed[v]) {
        born[v] = version.user >= 0 ? version.user : std::max(born[version.source], 0);
        if (dies[v] >= 0)
          dies[version.source] = std::max(dies[version.source], born[v]);
      }
    std::vector<bool> stored = keepSources(dies);
    std::vector<bool> renews(problem.tensors.size());
    for (const Problem::Output &output : problem.outputs)
      renews[output.tensor] = output.state >= 0;
    std::vector<double> change(end + 2);
    for (auto [v, version] : llvm::enumerate(all.versions)) {
      const Problem::Tensor &tensor = problem.tensors[version.tensor];
      double bytes = localBytes(tensor, mesh, version.sharding);
      if (tensor.splat || dies[v] < 0)
        continue;
      if (version.source < 0 && tensor.named()) {
        if (counted.insert(tensor.name).second)
          (tensor.role == Role::parameter ? result.memory.parameters
           : tensor.role == Role::moment  ? result.memory.moments
           : tensor.role == Role::input   ? result.memory.inputs
                                          : result.memory.others) += bytes;
        continue;
      }
      if (!stored[v] || (version.source < 0 && !groups.outside[version.tensor]))
        continue; // lives in kernels
      if (renews[version.tensor] && dies[v] == (int)end && born[v] >= 0)
        dies[v] = born[v]; // takes the place of the old state
      change[std::max(born[v], 0)] += bytes;
      change[dies[v] + 1] -= bytes;
    }
    double live = 0;
    for (size_t i = 0; i < end; ++i) {
      live += change[i];
      if (live > result.memory.transient) {
        result.memory.transient = live;
        result.memory.operation = i;
        result.memory.phase = (int)i <= groups.loss ? Prediction::forward
                              : groups.late[i]      ? Prediction::update
                                                    : Prediction::backward;
      }
    }
  }

  const Problem &problem;
  const Groups &groups;
  const CostModel &costs;
  const Mesh &mesh;
  const Plan &plan;
  const Expansion &all;
  std::vector<bool> needed;                    // by version
  std::vector<double> ready;                   // by version
  std::vector<llvm::SmallVector<int, 2>> from; // by version: its collectives
  std::vector<llvm::SmallVector<int, 2>> onDemand, follows;
  std::set<std::string> counted;
  double now = 0, network = 0;
  Prediction result;
};
} // namespace

Prediction planning::predict(const Problem &problem, const Groups &groups, const CostModel &costs, const Plan &plan) {
  return predict(problem, groups, costs, plan, expand(problem, costs.mesh, plan));
}

Prediction planning::predict(const Problem &problem, const Groups &groups, const CostModel &costs, const Plan &plan,
                             const Expansion &expansion) {
  return Step(problem, groups, costs, plan, expansion).run();
}
