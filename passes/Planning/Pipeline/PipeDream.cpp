#include "passes/Planning/Pipeline/PipeDream.h"
#include "passes/Planning/Pipeline/StageSearch.h"

#include <algorithm>

using namespace divisi;
using namespace divisi::planning;

/// Bytes that replicas of a stage send per minibatch, by their number on each level, innermost first: of m on a level
/// each sends 2 (m-1)/m of the parameters, once in a round in which every device inside of it has had a minibatch.
static double sentToSynchronise(double parameterBytes, llvm::ArrayRef<int64_t> perLevel) {
  double sent = 0, inside = 1;
  for (int64_t m : perLevel) {
    sent += 2 * static_cast<double>(m - 1) / static_cast<double>(m) * parameterBytes / inside;
    inside *= static_cast<double>(m);
  }
  return sent;
}

int64_t PipeDreamPlan::devices() const {
  int64_t sum = 0;
  for (const Stage &stage : stages)
    sum += stage.replicas;
  return sum;
}

PipeDreamPlan planning::planPipeDream(const LayerProfile &profile, llvm::ArrayRef<PipeLevel> levels, PipeCost cost) {
  PipeDreamPlan plan = StageSearch(profile, levels, cost).run();
  plan.cost = cost;
  double parameterBytes = 0;
  for (const LayerProfile::Layer &layer : profile.layers) {
    plan.dataParallelMs += layer.forwardMs + layer.backwardMs;
    parameterBytes += layer.parameterBytes;
  }
  llvm::SmallVector<int64_t> sizes;
  double inside = 1; // devices of a unit of the level
  for (const PipeLevel &level : levels) {
    double parameterMs = transferMs(parameterBytes, level.bandwidth) / inside; // once in a round of all of them
    plan.dataParallelMs = stageMs(PipeCost::code, plan.dataParallelMs, parameterMs, level.size);
    sizes.push_back(level.size);
    inside *= static_cast<double>(level.size);
  }
  plan.dataParallelBytes = sentToSynchronise(parameterBytes, sizes);
  for (const PipeDreamPlan::Stage &stage : plan.stages) {
    double bytes = 0;
    for (int layer : stage.layers)
      bytes += profile.layers[layer].parameterBytes;
    plan.sentBytes += sentToSynchronise(bytes, stage.perLevel) + 2 * stage.crossingBytes;
  }
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
