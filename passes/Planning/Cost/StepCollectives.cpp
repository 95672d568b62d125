#include "passes/Planning/Cost/StepCollectives.h"

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;
using Kind = ReshardStep::Kind;

StepCollectives::StepCollectives(const Problem &problem, const Groups &groups, const Mesh &mesh, const Plan &plan,
                                 const Expansion &expansion)
    : onDemand(problem.ops.size()), follows(expansion.versions.size()), problem(problem), groups(groups), mesh(mesh),
      plan(plan), all(expansion), ranges(expansion.versions.size()) {
  findNeeded();
  for (auto [v, version] : llvm::enumerate(all.versions))
    if (version.source >= 0 && needed[v])
      (version.user >= 0 ? onDemand[version.user] : follows[version.source]).push_back(v);
  if (mesh.devices() == 1)
    return;
  findCrossing();
  items.assign(all.versions.size(), -1);
  for (size_t t = 0; t < problem.tensors.size(); ++t)
    if (groups.maker[t] < 0)
      addFollowing(all.produced[t], -1);
  llvm::SmallVector<int> operands;
  for (size_t op = 0; op < problem.ops.size(); ++op) {
    if (groups.groupOf[op] < 0)
      continue;
    operands.clear();
    for (int version : onDemand[op])
      add(version, op);
    for (int version : all.operands[op])
      operands.push_back(items[version]);
    const int item = rule.add(operands);
    for (int tensor : problem.ops[op].results) {
      items[all.produced[tensor]] = item;
      addFollowing(all.produced[tensor], op);
    }
  }
  combine();
}

void StepCollectives::findNeeded() {
  needed.assign(all.versions.size(), false);
  for (size_t i = 0; i < problem.ops.size(); ++i)
    if (groups.groupOf[i] >= 0)
      for (int v : all.operands[i])
        needed[v] = true;
  for (auto [output, version] : llvm::zip(problem.outputs, all.outputs))
    if (!output.seldom && groups.maker[output.tensor] >= 0) // others are of the evaluation
      needed[version] = true;
  for (size_t v = all.versions.size(); v-- > 0;)
    if (needed[v] && all.versions[v].source >= 0)
      needed[all.versions[v].source] = true;
}

/// Finds the versions that a message brings to stages with other axes than those of the operation that makes the value:
/// only such stages use them.
void StepCollectives::findCrossing() {
  crosses.assign(all.versions.size(), false);
  if (plan.lacking.empty())
    return;
  std::vector<bool> near(all.versions.size());
  for (size_t i = 0; i < problem.ops.size(); ++i)
    for (int v : all.operands[i]) {
      int maker = groups.maker[all.versions[v].tensor];
      bool far = maker >= 0 && plan.lacking[maker] != plan.lacking[i];
      (far ? crosses : near)[v] = true;
    }
  for (int v : all.outputs)
    near[v] = true;
  for (size_t v = 0; v < near.size(); ++v)
    crosses[v] = crosses[v] && !near[v];
}

int64_t StepCollectives::repeatsOf(int version) const {
  const auto &entry = all.versions[version];
  return entry.user >= 0 ? problem.ops[entry.user].repeats : problem.tensors[entry.tensor].repeats;
}

void StepCollectives::addFollowing(int version, int operation) {
  for (int next : follows[version]) {
    add(next, operation);
    addFollowing(next, operation);
  }
}

void StepCollectives::add(int version, int operation) {
  const auto &entry = all.versions[version];
  const Problem::Tensor &tensor = problem.tensors[entry.tensor];
  const Sharding &before = all.versions[entry.source].sharding;
  const Sharding collected =
      crosses[version] ? sentSharding(before, entry.sharding, tensor.shape, mesh) : entry.sharding;
  int64_t local = localBytes(tensor, mesh, before);
  items[version] = items[entry.source];
  ranges[version] = {(int)entries.size(), 0};
  for (const ReshardStep &step : planReshard(before, collected)) {
    int64_t bytes = bytesOfStep(mesh, step, local);
    if (step.kind == Kind::slice)
      continue;
    const int64_t times = repeatsOf(version);
    entries.push_back({version, step, bytes, operation, times});
    ++ranges[version].second;
    items[version] = step.kind == Kind::allReduce
                         ? rule.add(items[version], {step.axes, step.reduction, tensor.elementBytes, times, bytes})
                         : rule.add(items[version]);
    itemsOf.push_back(items[version]);
  }
}

void StepCollectives::combine() {
  std::vector<int> numbers; // by bucket of the rule
  for (auto [entry, item] : llvm::zip(entries, itemsOf)) {
    const int bucket = rule.bucketOf(item);
    if (bucket < 0)
      continue;
    if (bucket >= (int)numbers.size())
      numbers.resize(bucket + 1, -1);
    if (numbers[bucket] < 0) {
      numbers[bucket] = buckets.size();
      buckets.emplace_back();
    }
    entry.bucket = numbers[bucket];
    buckets[entry.bucket].bytes += entry.bytes;
    ++buckets[entry.bucket].members;
    buckets[entry.bucket].operation = entry.operation;
  }
}
