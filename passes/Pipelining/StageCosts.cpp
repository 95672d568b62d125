#include "passes/Pipelining/StageCosts.h"

#include "passes/Planning/Cost/Collectives.h"

#include <map>

using namespace mlir;
using namespace divisi;
using namespace divisi::pipelining;
using namespace divisi::planning;

StageCosts::StageCosts(func::FuncOp train, const StepParts &parts, const ModuleProblem &problem, const Candidate &plan,
                       Expansion expansion, const Cluster &cluster)
    : train(train), parts(parts), problem(problem), plan(plan), cluster(cluster), expansion(std::move(expansion)),
      computing(plan.prediction.operations), communicating(problem.ops.size(), 0) {
  for (const Prediction::Collective &collective : plan.prediction.collectives)
    if (collective.operation >= 0)
      communicating[collective.operation] += collective.seconds;
}

double StageCosts::bytesOf(Value value) const {
  int tensor = problem.tensorOf.lookup(value);
  return localBytes(problem.problem.tensors[tensor], plan.mesh,
                    expansion.versions[expansion.produced[tensor]].sharding);
}

double StageCosts::seconds(Operation *op) const {
  auto it = problem.opOf.find(op);
  return it == problem.opOf.end() ? 0 : computing[it->second] + communicating[it->second];
}

double StageCosts::messageSeconds(double bytes) const {
  int64_t devices = plan.mesh.devices();
  SmallVector<Transfer> all; // the devices of a stage send at once
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
    int64_t devices = plan.mesh.devices();
    SmallVector<Transfer> all;
    for (int64_t i = 0; i < devices; ++i)
      all.push_back({from * devices + i, to * devices + i});
    return transferSeconds(cluster, all, bytes);
  };
  return network;
}

StageCosts::Stages StageCosts::of(const StagePlacement &placement, int64_t stages) const {
  Stages result;
  result.costs.resize(stages);
  auto stageOf = [&](Operation *op) { return placement.of(op); };
  auto weights = parts.weightGradients(train, stageOf);
  std::map<std::pair<int, int>, double> messages;
  llvm::DenseSet<Value> counted; // that backward tasks read
  for (Operation &op : train.getBody().front().without_terminator()) {
    auto &cost = result.costs[stageOf(&op)];
    Part part = parts.at(&op);
    auto number = problem.opOf.find(&op);
    if (isa<graph::AccumulateOp>(op)) {
      cost.stateBytes += bytesOf(op.getResult(0));
      (part == Part::forward ? cost.forward : cost.weightGradient) += seconds(&op);
      if (number != problem.opOf.end()) // the sum over devices comes once, behind the sum over microbatches
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
    for (Value value : op.getResults()) {
      bool kept = false;
      llvm::SmallDenseSet<int> elsewhere;
      for (Operation *user : value.getUsers()) {
        if (user->hasTrait<OpTrait::IsTerminator>() || isa<graph::AccumulateOp>(user))
          continue;
        kept |= part == Part::forward && parts.at(user) == Part::backward && stageOf(user) == stageOf(&op);
        if (stageOf(user) != stageOf(&op) && parts.at(user) == Part::forward && part == Part::forward)
          elsewhere.insert(stageOf(user));
      }
      if (Value source = parts.keptFor(value); kept && counted.insert(source).second)
        cost.activationBytes += bytesOf(source);
      for (int stage : elsewhere)
        messages[{stageOf(&op), stage}] += bytesOf(value);
    }
  }
  for (BlockArgument argument : train.getArguments())
    if (isOwned(argument)) {
      const Problem::Tensor &tensor = problem.problem.tensors[problem.tensorOf.lookup(argument)];
      auto &cost = result.costs[placement.of(argument)];
      (tensor.role == Problem::Role::parameter ? cost.parameterBytes : cost.stateBytes) += bytesOf(argument);
    }
  for (auto &[stagesOf, bytes] : messages)
    result.edges.push_back({stagesOf.first, stagesOf.second, bytes});
  return result;
}
