#include "passes/Planning/Pipeline/LowerBound.h"
#include "passes/Planning/Pipeline/LayerGraph.h"

#include <algorithm>
#include <limits>

using namespace divisi::planning;

namespace {

constexpr size_t manyLayers = 10000;

/// The least time of a stage of one level. From two replicas on, more of them are never slower.
double leastStageMs(const PipeLevel &level, PipeCost cost, double ms, double parameterBytes) {
  return std::min(ms, stageMs(cost, ms, transferMs(parameterBytes, level.bandwidth), level.size));
}

/// The least time of the slowest group of layers, if layers whose outputs take longer to cross a cut of a level than
/// `limit` share a stage of that level.
double slowestGroup(const LayerProfile &profile, llvm::ArrayRef<PipeLevel> levels, PipeCost cost, double limit) {
  size_t count = profile.layers.size();
  std::vector<double> inside(
      count); // by layer: the least time of the group that it is in, on a unit of the level inside
  double slowest = 0, devices = 1;
  for (size_t level = 0; level < levels.size(); ++level) {
    LayerGroups groups(count);
    // A cut of an outer level parts what a unit holds, too.
    groups.joinAcross(profile, mostCrossing(levels.drop_front(level), cost, limit));
    std::vector<double> ms(count), parameterBytes(count), least(count);
    for (size_t i = 0; i < count; ++i) {
      int group = groups.find(static_cast<int>(i));
      ms[group] += profile.layers[i].forwardMs + profile.layers[i].backwardMs;
      parameterBytes[group] += profile.layers[i].parameterBytes;
      least[group] = std::max(least[group], inside[i]);
    }
    for (size_t i = 0; i < count; ++i)
      least[i] = leastStageMs(levels[level], cost, std::max(least[i], ms[i] / devices), parameterBytes[i]);
    slowest = 0;
    for (size_t i = 0; i < count; ++i)
      slowest = std::max(slowest, inside[i] = least[groups.find(static_cast<int>(i))]);
    devices *= static_cast<double>(levels[level].size);
  }
  return slowest;
}

} // namespace

double divisi::planning::mostCrossing(llvm::ArrayRef<PipeLevel> levels, PipeCost cost, double ms) {
  if (cost == PipeCost::code)
    return std::numeric_limits<double>::infinity();
  double bandwidth = 0, outside = 1; // a cut inside of replicas is crossed by each of them in turn
  for (const PipeLevel &level : llvm::reverse(levels)) {
    bandwidth = std::max(bandwidth, level.bandwidth * outside);
    outside *= static_cast<double>(level.size);
  }
  return ms / 2e3 * bandwidth * (1 + 1e-9);
}

double divisi::planning::lowerBound(const LayerProfile &profile, llvm::ArrayRef<PipeLevel> levels, PipeCost cost) {
  double devices = 1, sum = 0, parameterBytes = 0;
  for (const LayerProfile::Layer &layer : profile.layers) {
    sum += layer.forwardMs + layer.backwardMs;
    parameterBytes += layer.parameterBytes;
  }
  double high = sum; // of a single stage
  for (const PipeLevel &level : levels) {
    devices *= static_cast<double>(level.size);
    high = leastStageMs(level, cost, high, parameterBytes);
  }
  // The slowest group gets no slower with the limit: sought is the least limit that is no less than it.
  double low = std::max(sum / devices, slowestGroup(profile, levels, cost, std::numeric_limits<double>::infinity()));
  if (slowestGroup(profile, levels, cost, low) <= low)
    return low;
  for (int step = 0; step < (profile.layers.size() > manyLayers ? 8 : 24); ++step) {
    double middle = (low + high) / 2;
    (slowestGroup(profile, levels, cost, middle) <= middle ? high : low) = middle;
  }
  return std::max(low, std::min(high, slowestGroup(profile, levels, cost, high)));
}
