#include "passes/Planning/Pipeline/Bottleneck.h"

#include <algorithm>
#include <cmath>

using namespace divisi;
using namespace divisi::planning;

Bottleneck::Bottleneck(const Cuts &cuts, PipeLevel level, PipeCost cost, double bound, int64_t &steps)
    : cuts(cuts), devices(level.size), cost(cost), bound(bound), steps(steps), mostParameters(devices + 1),
      used(cuts.count()), replicas(cuts.count()), before(cuts.count()) {
  for (int i = 0; i < cuts.count(); ++i) {
    points.push_back({cuts[i].ms, transferMs(cuts[i].parameterBytes, level.bandwidth), i});
    crossing.push_back(crossingMs(cost, cuts[i].crossingBytes, level.bandwidth));
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
  if (cost == PipeCost::code)
    return parameterMs > 0 ? replicasForBoth(ms, parameterMs) : least;
  if (least > devices || parameterMs <= mostParameters[least])
    return least;
  return std::lower_bound(mostParameters.begin() + least, mostParameters.end(), parameterMs) - mostParameters.begin();
}

/// The same where computing and synchronising do not overlap. With L the limit, c and p the times, m replicas are
/// enough if L m^2 - (c + 4 p) m + 4 p >= 0. One is too few, so the larger root counts.
int64_t Bottleneck::replicasForBoth(double ms, double parameterMs) const {
  double sum = ms + 4 * parameterMs;
  double root = (sum + std::sqrt(std::max(0.0, sum * sum - 16 * limit * parameterMs))) / (2 * limit);
  if (!(root <= static_cast<double>(devices + 1)))
    return devices + 1;
  auto enough = [&](int64_t m) { return stageMs(cost, ms, parameterMs, m) <= limit; };
  int64_t least = std::max<int64_t>(2, static_cast<int64_t>(root));
  while (least > 2 && enough(least - 1)) // against rounding
    --least;
  while (least <= devices && !enough(least))
    ++least;
  return least;
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

/// Along the stairs, a stage that starts later has more compute and fewer parameters. If computing and synchronising
/// overlap, the best start is the first one whose replicas for the compute are enough for the parameters, or the one
/// before it.
void Bottleneck::fromStairs(const Point &target, int64_t count, const Stairs &stairs) {
  auto tooFar = [&](const Point &start) { // not better even without parameters
    return target.ms - start.ms > static_cast<double>(used[target.cut] - count - 1) * limit * roundingSlack;
  };
  --steps;
  if (tooFar(stairs.front()))
    return;
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
  if (cost == PipeCost::code) {
    for (auto start = stairs.begin(); start != stairs.end() && !tooFar(*start); ++start, --steps)
      tryFrom(*start);
    return;
  }
  auto found = std::partition_point(stairs.begin(), stairs.end(), tooManyParameters);
  if (found != stairs.end())
    tryFrom(*found);
  if (found != stairs.begin())
    tryFrom(found[-1]);
}

/// The starts rise in compute. From the last one backwards, stages have more and more.
void Bottleneck::fromBlock(const Point &target, int64_t count, const std::vector<Point> &starts) {
  for (auto start = starts.rbegin(); start != starts.rend(); ++start) {
    --steps;
    double ms = target.ms - start->ms;
    if (ms > static_cast<double>(used[target.cut] - count - 1) * limit * roundingSlack)
      return;
    int64_t need = replicasFor(ms, target.parameterMs - start->parameterMs);
    if (count + need < used[target.cut] && cuts.containsInBlock(target.cut, start->cut))
      offer(target.cut, start->cut, count + need, need);
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
    for (int cut = block.first; cut < block.end; ++cut) {
      reachCut(cut);
      if (steps <= 0)
        return false;
    }
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
    result = std::max({result, stageMs(cost, to.ms - from.ms, to.parameterMs - from.parameterMs, stage.replicas),
                       crossing[stage.outer]});
  }
  return result;
}

/// The whole network as one stage: of the fastest numbers of replicas, the smallest.
StageChoice Bottleneck::singleStage() const {
  StageChoice best{0, cuts.count() - 1, 1};
  double least = slowest({best});
  for (int64_t m = 2; m <= devices; ++m)
    if (double time = slowest({{0, best.outer, m}}); time * roundingSlack < least) {
      least = time;
      best.replicas = m;
    }
  return best;
}

/// Bisection of the limit. A plan that is found lowers it to its own time; every third limit is just below the best
/// time, since that is often the least one.
std::vector<StageChoice> Bottleneck::run() {
  StageChoice single = singleStage();
  std::vector<StageChoice> best{single};
  double high = slowest(best), highest = high;
  double low = std::max(bound, points.back().ms / static_cast<double>(devices)) * (2 - roundingSlack);
  for (int step = 1; high > low * roundingSlack && high > 0; ++step) {
    double middle = step % 3 == 0 ? high * (2 - roundingSlack) : (low + high) / 2;
    if (reach(middle)) {
      best = stages();
      high = std::min(middle, slowest(best));
    } else if (!complete()) {
      return best;
    } else {
      low = middle;
    }
  }
  // Of plans that are equally fast, one with the fewest devices.
  if (high > 0 && reach(high * roundingSlack) && !(highest <= limit && used.back() == single.replicas))
    return stages();
  return highest <= high * roundingSlack ? std::vector<StageChoice>{single} : best;
}
