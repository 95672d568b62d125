#include "passes/Pipelining/StageCosts.h"

#include "passes/Planning/Cost/Collectives.h"
#include "passes/Planning/Remat/Rematerialize.h"
#include "step/Liveness.h"

#include "llvm/ADT/SmallSet.h"

#include <map>
#include <set>

using namespace mlir;
using namespace divisi;
using namespace divisi::pipelining;
using namespace divisi::planning;

StageCosts::StageCosts(func::FuncOp train, const StepParts &parts, const ModuleProblem &problem, const Candidate &plan,
                       const FusedProblem &fused, Expansion expansion, const Cluster &cluster, dist::StageAxes axes)
    : train(train), parts(parts), problem(problem), plan(plan), cluster(cluster), expansion(std::move(expansion)),
      axes(std::move(axes)), fused(fused), computing(plan.prediction.operations),
      communicating(problem.ops.size(), 0) {
  for (Operation &op : train.getBody().front().without_terminator())
    position.try_emplace(&op, position.size());
  for (const Prediction::Collective &collective : plan.prediction.collectives)
    if (collective.operation >= 0)
      communicating[collective.operation] += collective.seconds;
}

double StageCosts::bytesOf(Value value) const {
  int tensor = problem.tensorOf.lookup(value);
  return localBytes(problem.problem.tensors[tensor], plan.mesh,
                    expansion.versions[expansion.produced[tensor]].sharding);
}

double StageCosts::bytesBetween(int from, int to, Value value, llvm::function_ref<int(Operation *)> stageOf) const {
  if (axes.lacking(from, plan.mesh) == axes.lacking(to, plan.mesh))
    return bytesOf(value); // and it is resharded where it arrives
  int tensor = problem.tensorOf.lookup(value);
  llvm::SmallSet<int, 2> versions; // one message for each
  for (OpOperand &use : value.getUses())
    if (auto user = problem.opOf.find(use.getOwner()); user != problem.opOf.end() && stageOf(use.getOwner()) == to)
      versions.insert(expansion.operands[user->second][use.getOperandNumber()]);
  double bytes = 0; // that each receiver gets
  for (int version : versions)
    bytes += localBytes(problem.problem.tensors[tensor], plan.mesh, expansion.versions[version].sharding);
  return bytes * axes.devices(to, plan.mesh) / pairsBetween(from, to);
}

int64_t StageCosts::pairsBetween(int from, int to) const {
  return std::max(axes.devices(from, plan.mesh), axes.devices(to, plan.mesh));
}

double StageCosts::seconds(Operation *op) const {
  auto it = problem.opOf.find(op);
  return it == problem.opOf.end() ? 0 : computing[it->second] + communicating[it->second];
}

double StageCosts::messageSeconds(double bytes) const {
  int64_t devices = plan.mesh.devices();
  SmallVector<Transfer> all; // all devices of a stage send at once
  for (int64_t i = 0; i < devices && devices + i < cluster.devices(); ++i)
    all.push_back({i, devices + i});
  return all.empty() ? 0 : transferSeconds(cluster, all, bytes);
}

StageWeights StageCosts::weights() const {
  return {[this](Operation *op) { return seconds(op); },
          [this](Value value) { return messageSeconds(bytesOf(value)); }};
}

pipeline::Network StageCosts::network() const {
  pipeline::Network network;
  network.seconds = [this](int from, int to, double bytes) {
    int64_t firstSender = axes.devicesBefore(from, plan.mesh), firstReceiver = axes.devicesBefore(to, plan.mesh);
    int64_t senders = axes.devices(from, plan.mesh), receivers = axes.devices(to, plan.mesh);
    SmallVector<Transfer> all;
    for (int64_t i = 0, pairs = pairsBetween(from, to); i < pairs; ++i) // of devices at the same relative position
      all.push_back({firstSender + i * senders / pairs, firstReceiver + i * receivers / pairs});
    return transferSeconds(cluster, all, bytes);
  };
  return network;
}

void StageCosts::computeAgain(int64_t count, llvm::function_ref<int(Operation *)> stageOf,
                              std::vector<pipeline::StageCost> &costs, llvm::DenseSet<Value> &dropped,
                              llvm::function_ref<void(int, Value)> keep) const {
  std::vector<double> largest(costs.size(), 0); // one segment of a stage is recomputed at a time
  std::vector<RematEffect> effects = rematEffects(train, stageOf);
  effects.resize(std::min<size_t>(effects.size(), count));
  for (const RematEffect &part : effects) {
    double bytes = 0;
    for (Value value : part.dropped) {
      dropped.insert(value);
      bytes += bytesOf(value);
    }
    largest[part.stage] = std::max(largest[part.stage], bytes);
    for (Value value : part.from)
      if (parts.at(value.getDefiningOp()) == Part::forward)
        keep(part.stage, value);
    for (Operation *op : part.again)
      costs[part.stage].inputGradient += seconds(op);
  }
  for (auto [cost, bytes] : llvm::zip(costs, largest))
    cost.stateBytes += bytes;
}

std::optional<std::pair<int, int>> StageCosts::readers(Value value, Part part,
                                                       llvm::function_ref<int(Operation *)> stageOf) const {
  std::optional<std::pair<int, int>> result;
  for (Operation *user : value.getUsers()) {
    auto it = position.find(user);
    if (it == position.end() || parts.at(user) != part || stageOf(user) != stageOf(value.getDefiningOp()))
      continue;
    auto [first, last] = result.value_or(std::pair(it->second, it->second));
    result = {std::min(first, it->second), std::max(last, it->second)};
  }
  return result;
}

std::vector<double> StageCosts::transientBytes(llvm::function_ref<int(Operation *)> stageOf, int64_t stages) const {
  std::vector<step::Liveness> live(stages, step::Liveness(position.size()));
  for (Operation &op : train.getBody().front().without_terminator()) {
    if (!parts.isTimed(&op) || isa<graph::AccumulateOp>(op))
      continue;
    Part part = parts.at(&op);
    const int at = position.at(&op);
    if (auto number = problem.opOf.find(&op); number != problem.opOf.end()) {
      if (fused.forGpu)
        live[stageOf(&op)].add(at, at, planning::localWorkspace(problem.problem, expansion, plan.mesh, number->second));
      for (int v : expansion.operands[number->second])
        if (const auto &version = expansion.versions[v]; version.source >= 0 && version.user >= 0)
          live[stageOf(&op)].add(at, at, localBytes(problem.problem.tensors[version.tensor], plan.mesh, version.sharding));
    }
    for (Value value : op.getResults()) {
      if (!fused.stored[problem.tensorOf.lookup(value)])
        continue;
      auto add = [&](int first, int last) { live[stageOf(&op)].add(first, last, bytesOf(value)); };
      auto late = part == Part::forward ? readers(value, Part::backward, stageOf) : std::nullopt;
      bool again = parts.keptFor(value) != value; // the backward task recomputes it from that value
      if (!late || again)
        add(at, readers(value, part, stageOf).value_or(std::pair(at, at)).second);
      if (late && again)
        add(late->first, late->second);
    }
  }
  std::vector<double> result;
  for (const step::Liveness &stage : live)
    result.push_back(stage.peak().bytes);
  return result;
}

StageCosts::Stages StageCosts::of(const StagePlacement &placement, int64_t stages, int64_t remat, bool isAsynchronous) const {
  Stages result;
  result.costs.resize(stages);
  auto stageOf = [&](Operation *op) { return placement.of(op); };
  auto weights = parts.weightGradients(train, stageOf, !isAsynchronous);
  std::map<std::pair<int, int>, pipeline::Load> sent; // by sender and receiver, of a microbatch
  std::set<std::pair<int, int>> remade;   // resharded parameters, by stage
  llvm::DenseSet<Value> counted, dropped; // values that backward tasks read, values that they recompute
  auto keep = [&](int stage, Value value) {
    if (Value source = parts.keptFor(value); counted.insert(source).second)
      result.costs[stage].activationBytes += bytesOf(source);
  };
  if (remat > 0)
    computeAgain(remat, stageOf, result.costs, dropped, keep);
  for (Operation &op : train.getBody().front().without_terminator()) {
    auto &cost = result.costs[stageOf(&op)];
    Part part = parts.at(&op);
    auto number = problem.opOf.find(&op);
    if (isa<graph::AccumulateOp>(op)) {
      cost.stateBytes += bytesOf(op.getResult(0));
      (part == Part::forward ? cost.forward : cost.weightGradient) += seconds(&op);
      if (number != problem.opOf.end()) // the all_reduce runs once, after the sum over the microbatches
        cost.allReduce += communicating[number->second];
      continue;
    }
    switch (part) {
    case Part::forward:
      cost.forward += seconds(&op);
      break;
    case Part::backward:
      (weights.contains(&op) ? cost.weightGradient : cost.inputGradient) += seconds(&op);
      break;
    case Part::anywhere:
      break;
    case Part::start:
    case Part::finish:
      if (number != problem.opOf.end()) {
        cost.update += computing[number->second];
        cost.allReduce += communicating[number->second];
      }
    }
    if (part != Part::forward && part != Part::backward)
      continue;
    if (number != problem.opOf.end())
      for (int v : expansion.operands[number->second]) // what is resharded for all uses is stored once for all microbatches
        if (const auto &version = expansion.versions[v];
            version.source >= 0 && version.user < 0 && problem.problem.tensors[version.tensor].role == Problem::Role::parameter &&
            remade.insert({stageOf(&op), v}).second)
          cost.stateBytes += localBytes(problem.problem.tensors[version.tensor], plan.mesh, version.sharding);
    for (Value value : op.getResults()) {
      bool kept = false;
      llvm::SmallDenseSet<int> elsewhere;
      for (Operation *user : value.getUsers()) {
        if (user->hasTrait<OpTrait::IsTerminator>() || isa<graph::AccumulateOp>(user))
          continue;
        kept |= part == Part::forward && parts.at(user) == Part::backward && stageOf(user) == stageOf(&op);
        if (stageOf(user) == stageOf(&op) || !parts.isTimed(user))
          continue;
        if (isAsynchronous || !isSummedLater(user)) {
          elsewhere.insert(stageOf(user));
          continue;
        }
        // This stage sums its part over the microbatches, and sends it once in a step. (The sum of the other part is the
        // operation's own time.)
        result.costs[stageOf(&op)].stateBytes += bytesOf(value);
        result.costs[stageOf(user)].allReduce += messageSeconds(bytesOf(value));
      }
      if (kept && !dropped.contains(value))
        keep(stageOf(&op), value);
      for (int stage : elsewhere) {
        pipeline::Load &load = sent.try_emplace({stageOf(&op), stage}, pipeline::Load{0, 0}).first->second;
        load.bytes += bytesBetween(stageOf(&op), stage, value, stageOf);
        ++load.values;
      }
    }
  }
  for (BlockArgument argument : train.getArguments())
    if (isOwned(argument)) {
      const Problem::Tensor &tensor = problem.problem.tensors[problem.tensorOf.lookup(argument)];
      auto &cost = result.costs[placement.of(argument)];
      (tensor.role == Problem::Role::parameter ? cost.parameterBytes : cost.stateBytes) += bytesOf(argument);
    }
  for (auto [cost, bytes] : llvm::zip(result.costs, transientBytes(stageOf, stages)))
    cost.stateBytes += bytes;
  for (auto &[ends, load] : sent) {
    auto [from, to] = ends;
    auto back = sent.find({to, from});
    if (from < to)
      result.edges.push_back(
          {from, to, load.bytes, load.values, back == sent.end() ? pipeline::Load{0, 0} : back->second});
    else if (back == sent.end()) // gradients alone
      result.edges.push_back({to, from, 0, 0, load});
  }
  return result;
}
