#include "passes/Planning/Pipeline/PipeDream.h"
#include "passes/Planning/Pipeline/Bottleneck.h"
#include "passes/Planning/Pipeline/Hierarchy.h"

#include <algorithm>

using namespace divisi;
using namespace divisi::planning;

namespace {

std::vector<Hierarchy::Stage> planOneLevel(const Cuts &cuts, PipeLevel level) {
  std::vector<Hierarchy::Stage> stages;
  for (const StageChoice &choice : Bottleneck(cuts, level).run()) {
    const Cuts::Cut &from = cuts[choice.inner], &to = cuts[choice.outer];
    double compute = (to.ms - from.ms) / static_cast<double>(choice.replicas);
    double sync = syncMs(transferMs(to.parameterBytes - from.parameterBytes, level.bandwidth), choice.replicas);
    bool last = choice.outer == cuts.count() - 1;
    stages.push_back({choice.inner,
                      choice.outer,
                      {choice.replicas},
                      std::max(compute, sync),
                      last ? 0 : 2 * transferMs(to.crossingBytes, level.bandwidth)});
  }
  return stages;
}

} // namespace

int64_t PipeDreamPlan::devices() const {
  int64_t sum = 0;
  for (const Stage &stage : stages)
    sum += stage.replicas;
  return sum;
}

llvm::Expected<PipeDreamPlan> planning::planPipeDream(const LayerProfile &profile, llvm::ArrayRef<PipeLevel> levels) {
  llvm::Expected<Cuts> cuts = Cuts::of(profile);
  if (!cuts)
    return cuts.takeError();
  PipeDreamPlan plan;
  plan.cuts = plan.considered = cuts->count();
  std::vector<Hierarchy::Stage> stages;
  if (levels.size() > 1) {
    Hierarchy hierarchy(*cuts, levels);
    plan.considered = hierarchy.considered();
    stages = hierarchy.run();
  } else {
    stages = planOneLevel(*cuts, levels.empty() ? PipeLevel{1, 1} : levels[0]);
  }
  for (const Hierarchy::Stage &stage : stages) {
    PipeDreamPlan::Stage &result = plan.stages.emplace_back();
    result.layers = cuts->layersBetween(stage.inner, stage.outer);
    result.perLevel = stage.perLevel;
    for (int64_t replicas : stage.perLevel)
      result.replicas *= replicas;
    result.ms = stage.ms;
    result.transferMs = stage.transferMs;
    plan.slowestMs = std::max({plan.slowestMs, stage.ms, stage.transferMs});
  }
  if (plan.slowestMs > 0)
    plan.speedup = (*cuts)[cuts->count() - 1].ms / plan.slowestMs;
  return plan;
}

llvm::Expected<std::vector<PipeLevel>> planning::pipeLevels(const Cluster &cluster, int64_t devices) {
  if (devices < 1 || devices > cluster.devices())
    return llvm::createStringError("the cluster has " + std::to_string(cluster.devices()) + " devices, " +
                                   std::to_string(devices) + " are asked for");
  std::vector<PipeLevel> levels;
  int64_t left = devices;
  for (const Cluster::Level &level : cluster.levels) {
    int64_t size = std::min(level.size, left);
    if (left % size != 0)
      return llvm::createStringError(std::to_string(devices) + " devices are not whole units of " +
                                     std::to_string(level.size) + " on level '" + level.name + "'");
    left /= size;
    if (size > 1)
      levels.push_back({size, level.bandwidth});
  }
  return levels;
}
