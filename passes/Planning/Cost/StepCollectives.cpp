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
  findCrossing();
  findFetches();
  for (auto [v, version] : llvm::enumerate(all.versions))
    if (version.source >= 0 && needed[v] && starts[v] < 0)
      (version.user >= 0 ? onDemand[version.user] : follows[version.source]).push_back(v);
  if (mesh.devices() == 1)
    return;
  items.assign(all.versions.size(), -1);
  for (size_t t = 0; t < problem.tensors.size(); ++t)
    if (groups.maker[t] < 0)
      addFollowing(all.produced[t], -1);
  llvm::SmallVector<int> operands;
  auto fetch = ahead.begin();
  for (size_t op = 0; op < problem.ops.size(); ++op) {
    if (groups.groupOf[op] < 0)
      continue;
    operands.clear();
    for (; fetch != ahead.end() && fetch->start <= (int)op; ++fetch)
      add(fetch->version, all.versions[fetch->version].user);
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
  returned = needed;
  for (int v : all.outputs)
    returned[v] = true;
  for (size_t i = 0; i < problem.ops.size(); ++i)
    if (groups.groupOf[i] >= 0)
      for (int v : all.operands[i]) {
        needed[v] = true;
        returned[v] = false;
      }
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

std::vector<ReshardStep> StepCollectives::stepsOf(int version) const {
  const auto &entry = all.versions[version];
  const Sharding &before = all.versions[entry.source].sharding;
  return planReshard(before, crosses[version]
                                 ? sentSharding(before, entry.sharding, problem.tensors[entry.tensor].shape, mesh)
                                 : entry.sharding);
}

/// Whether a version is gathered, for one use, of shards of state or of what is made of parameters alone, and in no other way.
bool StepCollectives::isFetched(int version) const {
  const auto &entry = all.versions[version];
  if (entry.user < 0 || entry.source < 0 || !needed[version] || (groups.maker[entry.tensor] >= 0 && !problem.tensors[entry.tensor].weight) ||
      all.versions[entry.source].source >= 0)
    return false;
  std::vector<ReshardStep> steps = stepsOf(version);
  return !steps.empty() && llvm::all_of(steps, [](const ReshardStep &step) { return step.kind == Kind::allGather; });
}

void StepCollectives::findFetches() {
  starts.assign(all.versions.size(), -1);
  layers.assign(all.versions.size(), -1);
  enum Task { once, forward, backward }; // what runs once, or for a microbatch
  auto taskOf = [&](int op) { return problem.ops[op].repeats == 1 ? once : op <= groups.loss ? forward : backward; };
  std::vector<step::Fetch> found;
  double bytes[3] = {}; // by task
  for (int op = 0; op < (int)problem.ops.size(); ++op)
    if (groups.groupOf[op] >= 0)
      for (int version : all.operands[op])
        if (isFetched(version) && (ahead.empty() || ahead.back().version != version)) {
          const auto &entry = all.versions[version];
          found.push_back({entry.source, op, (int64_t)localBytes(problem.tensors[entry.tensor], mesh, entry.sharding)});
          bytes[taskOf(op)] += (double)found.back().bytes;
          ahead.push_back({op, version});
        }
  step::Prefetch rule;
  int task = -1;
  for (auto [fetch, entry] : llvm::zip(ahead, found)) {
    if (taskOf(fetch.start) != task)
      rule.begin((int64_t)bytes[task = taskOf(fetch.start)]);
    layers[fetch.version] = rule.add(entry);
    fetch.start = starts[fetch.version] = rule.startOf(layers[fetch.version]);
  }
}

bool StepCollectives::mayCombine(int version, Kind kind) const {
  return kind == Kind::allReduce || kind == Kind::reduceScatter ||
         (kind == Kind::allGather && (layers[version] >= 0 || returned[version]));
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
  int64_t local = localBytes(tensor, mesh, all.versions[entry.source].sharding);
  items[version] = items[entry.source];
  ranges[version] = {(int)entries.size(), 0};
  for (const ReshardStep &step : stepsOf(version)) {
    int64_t bytes = bytesOfStep(mesh, step, local);
    if (step.kind == Kind::slice)
      continue;
    const int64_t times = repeatsOf(version);
    entries.push_back({version, step, bytes, operation, times});
    ++ranges[version].second;
    items[version] = !mayCombine(version, step.kind)
                         ? rule.add(items[version])
                         : rule.add(items[version], {step.kind, step.axes, step.reduction, tensor.elementBytes, times,
                                                     bytes, mesh.parts(step.axes), layers[version]});
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
    buckets[entry.bucket].operation = starts[entry.version] >= 0 ? starts[entry.version] : entry.operation;
  }
}
