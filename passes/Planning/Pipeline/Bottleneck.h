#pragma once
#include "passes/Planning/Pipeline/Cuts.h"
#include "passes/Planning/Pipeline/PipeDream.h"
#include "passes/Planning/Pipeline/StageCost.h"

#include <functional>
#include <map>
#include <vector>

namespace divisi::planning {

/// PipeDream's stages for one level, over all cuts: bisection on the time of the slowest stage. For a time limit, the
/// fewest devices that hold the network up to each cut are found from small cuts to large ones. Some cuts are left out
/// without loss:
/// - Cuts that take longer to cross than the limit: the definition forbids them.
/// - Cuts whose devices are too many, together with the least number that the rest needs (its compute time over the
/// limit).
/// - Of the cuts of earlier blocks with equally many devices, those with less compute and no more parameters inside
/// than another. The next stage's end contains both, so a stage that starts behind the other costs no more.
/// A search may still look at very many pairs of cuts of one block: their number is limited.
class Bottleneck {
public:
  /// `bound`: no plan is faster, in milliseconds. `steps`: the most pairs of cuts to look at.
  Bottleneck(const Cuts &cuts, PipeLevel level, PipeCost cost, double bound, int64_t &steps);
  std::vector<StageChoice> run();
  /// Whether `run` has searched all; otherwise its result is the best so far.
  bool complete() const { return steps > 0; }

private:
  struct Point {
    double ms, parameterMs;
    int cut;
  };
  /// Cuts with decreasing compute and increasing parameters inside.
  using Stairs = std::vector<Point>;
  using ByDevices = std::map<int64_t, Stairs, std::greater<>>;

  int64_t replicasFor(double ms, double parameterMs) const;
  int64_t replicasForBoth(double ms, double parameterMs) const;
  int64_t leastDevices(double ms) const;
  bool reach(double newLimit);
  void reachCut(int cut);
  void fromStairs(const Point &target, int64_t devices, const Stairs &stairs);
  void fromBlock(const Point &target, int64_t devices, const std::vector<Point> &starts);
  void offer(int cut, int from, int64_t devices, int64_t replicas);
  static void addStep(Stairs &stairs, const Point &point);
  std::vector<StageChoice> stages() const;
  double slowest(const std::vector<StageChoice> &stages) const;
  StageChoice singleStage() const;

  const Cuts &cuts;
  int64_t devices;
  PipeCost cost;
  double bound;
  int64_t &steps;                      // that are left
  std::vector<Point> points;           // by cut
  std::vector<double> crossing;        // by cut, milliseconds
  double limit = 0;                    // milliseconds
  std::vector<double> mostParameters;  // by replicas from 2: transfer milliseconds that they can synchronise
  std::vector<int64_t> used, replicas; // by cut: devices in all and of its last stage
  std::vector<int> before;             // by cut: where its last stage starts
  ByDevices earlier, inBlock;          // cuts that are reached
};

} // namespace divisi::planning
