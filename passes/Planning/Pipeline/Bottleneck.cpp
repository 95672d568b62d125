#include "passes/Planning/Pipeline/Bottleneck.h"

#include <algorithm>
#include <cmath>

using namespace divisi;
using namespace divisi::planning;

Bottleneck::Bottleneck(const Cuts &cuts, PipeLevel level)
    : cuts(cuts), devices(level.size), mostParameters(devices + 1), used(cuts.count()), replicas(cuts.count()),
      before(cuts.count()) {
  for (int i = 0; i < cuts.count(); ++i) {
    points.push_back({cuts[i].ms, transferMs(cuts[i].parameterBytes, level.bandwidth), i});
    crossing.push_back(2 * transferMs(cuts[i].crossingBytes, level.bandwidth));
  }
  crossing.back() = 0; // against rounding
}

/// The fewest replicas with which a stage is within the limit; more than there are devices if none are enough.
int64_t Bottleneck::replicasFor(double ms, double parameterMs) const {
  if (ms <= limit)
    return 1;
  double count = std::ceil(ms / limit);
  if (!(count <= static_cast<double>(devices + 1)))
    return devices + 1;
  auto least = static_cast<int64_t>(count);
  least += ms > static_cast<double>(least) * limit;
  if (least > devices || parameterMs <= mostParameters[least])
    return least;
  return std::lower_bound(mostParameters.begin() + least, mostParameters.end(), parameterMs) - mostParameters.begin();
}

/// A lower bound on the devices for this compute, even if sums are rounded.
int64_t Bottleneck::leastDevices(double ms) const {
  double count = std::ceil(ms / limit * (1 - 1e-11));
  return count > static_cast<double>(devices) ? devices + 1 : std::max<int64_t>(1, static_cast<int64_t>(count));
}

void Bottleneck::offer(int cut, int from, int64_t count, int64_t replicasOfStage) {
  if (count >= used[cut])
    return;
  used[cut] = count;
  replicas[cut] = replicasOfStage;
  before[cut] = from;
}

/// Along the stairs, a stage that starts later has more compute and fewer parameters. The best start is the first one
/// whose replicas for the compute are enough for the parameters, or the one before it.
void Bottleneck::fromStairs(const Point &target, int64_t count, const Stairs &stairs) {
  if (target.ms - stairs.front().ms > static_cast<double>(used[target.cut] - count - 1) * limit * sameTime)
    return; // not better even without parameters
  auto tryFrom = [&](const Point &start) {
    int64_t need = replicasFor(target.ms - start.ms, target.parameterMs - start.parameterMs);
    offer(target.cut, start.cut, count + need, need);
  };
  auto tooManyParameters = [&](const Point &start) {
    double least = std::clamp(std::ceil((target.ms - start.ms) / limit), 2.0, static_cast<double>(devices));
    return target.parameterMs - start.parameterMs > mostParameters[static_cast<size_t>(least)];
  };
  if (devices == 1 || target.ms - stairs.front().ms <= limit)
    return tryFrom(stairs.front());
  auto found = std::partition_point(stairs.begin(), stairs.end(), tooManyParameters);
  if (found != stairs.end())
    tryFrom(*found);
  if (found != stairs.begin())
    tryFrom(found[-1]);
}

void Bottleneck::fromBlock(const Point &target, int64_t count, const std::vector<Point> &starts) {
  double furthest = target.ms - static_cast<double>(used[target.cut] - count - 1) * limit * sameTime;
  for (const Point &start : starts)
    if (start.ms >= furthest && cuts.containsInBlock(target.cut, start.cut)) {
      int64_t need = replicasFor(target.ms - start.ms, target.parameterMs - start.parameterMs);
      offer(target.cut, start.cut, count + need, need);
    }
}

/// Sets `used` to the fewest devices for the cut, or to more than there are.
void Bottleneck::reachCut(int cut) {
  bool last = cut == cuts.count() - 1;
  used[cut] = devices + 1;
  if (crossing[cut] > limit)
    return;
  const Point &target = points[cut];
  int64_t least = leastDevices(target.ms);
  int64_t enough = devices - (last ? 0 : leastDevices(points.back().ms - target.ms));
  used[cut] = enough + 1; // more devices are no improvement
  for (auto *reached : {&earlier, &inBlock})
    for (const auto &[count, starts] : *reached) {
      if (used[cut] <= least)
        break;
      if (count + 1 >= used[cut])
        continue;
      reached == &earlier ? fromStairs(target, count, starts) : fromBlock(target, count, starts);
    }
  if (used[cut] > enough)
    used[cut] = devices + 1;
  else
    inBlock[used[cut]].push_back(target);
}

void Bottleneck::addStep(Stairs &stairs, const Point &point) {
  auto at = std::partition_point(stairs.begin(), stairs.end(), [&](const Point &p) { return p.ms >= point.ms; });
  if (at != stairs.begin() && at[-1].parameterMs >= point.parameterMs)
    return;
  auto end = std::find_if(at, stairs.end(), [&](const Point &p) { return p.parameterMs > point.parameterMs; });
  if (at != stairs.begin() && at[-1].ms == point.ms)
    --at;
  at = stairs.erase(at, end);
  stairs.insert(at, point);
}

/// Whether stages within the limit can hold the whole network.
bool Bottleneck::reach(double newLimit) {
  limit = newLimit;
  for (int64_t m = 2; m <= devices; ++m)
    mostParameters[m] = limit / syncMs(1, m);
  earlier.clear();
  inBlock.clear();
  earlier[0].push_back(points[0]);
  for (const Cuts::Block &block : cuts.blocks()) {
    for (int cut = block.first; cut < block.end; ++cut)
      reachCut(cut);
    for (const auto &[count, starts] : inBlock)
      for (const Point &point : starts)
        addStep(earlier[count], point);
    inBlock.clear();
  }
  return used.back() <= devices;
}

std::vector<StageChoice> Bottleneck::stages() const {
  std::vector<StageChoice> result;
  for (int at = cuts.count() - 1; at > 0; at = before[at])
    result.push_back({before[at], at, replicas[at]});
  std::reverse(result.begin(), result.end());
  return result;
}

double Bottleneck::slowest(const std::vector<StageChoice> &stages) const {
  double result = 0;
  for (const StageChoice &stage : stages) {
    const Point &from = points[stage.inner], &to = points[stage.outer];
    result = std::max({result, (to.ms - from.ms) / static_cast<double>(stage.replicas),
                       syncMs(to.parameterMs - from.parameterMs, stage.replicas), crossing[stage.outer]});
  }
  return result;
}

/// The whole network as one stage: of the fastest numbers of replicas, the smallest.
StageChoice Bottleneck::singleStage() const {
  StageChoice best{0, cuts.count() - 1, 1};
  double least = slowest({best});
  for (int64_t m = 2; m <= devices; ++m)
    if (double time = slowest({{0, best.outer, m}}); time * sameTime < least) {
      least = time;
      best.replicas = m;
    }
  return best;
}

std::vector<StageChoice> Bottleneck::run() {
  StageChoice single = singleStage();
  double high = slowest({single});
  double low = points.back().ms / static_cast<double>(devices) * (2 - sameTime);
  while (high > low * sameTime && high > 0) {
    double middle = (low + high) / 2;
    if (reach(middle))
      high = std::min(middle, slowest(stages()));
    else
      low = middle;
  }
  if (high > 0 && reach(high * sameTime) && !(slowest({single}) <= limit && used.back() == single.replicas))
    return stages();
  return {single};
}
