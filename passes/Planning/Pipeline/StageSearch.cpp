#include "passes/Planning/Pipeline/StageSearch.h"
#include "passes/Planning/Pipeline/Bottleneck.h"
#include "passes/Planning/Pipeline/Hierarchy.h"
#include "passes/Planning/Pipeline/LowerBound.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

#include <algorithm>
#include <queue>

using namespace divisi::planning;

namespace {

constexpr int64_t allSteps = 60'000'000, quickSteps = 4'000'000; // of a search of all cuts, of some
constexpr size_t windowCuts = 1 << 14;                           // of a graph with windows
constexpr int widestWindow = 48;                                 // nodes on each side
constexpr int mostRounds = 16;                                   // of refinement
constexpr int mostKept = 1024, nearKept = 256, lineKept = 96;    // cuts, of several levels

std::vector<Hierarchy::Stage> stagesOf(const std::vector<StageChoice> &choices, const Cuts &cuts, PipeLevel level,
                                       PipeCost cost) {
  std::vector<Hierarchy::Stage> stages;
  for (const StageChoice &choice : choices) {
    const Cuts::Cut &from = cuts[choice.inner], &to = cuts[choice.outer];
    double parameterMs = transferMs(to.parameterBytes - from.parameterBytes, level.bandwidth);
    bool last = choice.outer == cuts.count() - 1;
    stages.push_back({choice.inner,
                      choice.outer,
                      {choice.replicas},
                      stageMs(cost, to.ms - from.ms, parameterMs, choice.replicas),
                      last ? 0 : crossingMs(cost, to.crossingBytes, level.bandwidth)});
  }
  return stages;
}

PipeDreamPlan planOf(const std::vector<Hierarchy::Stage> &stages, const Cuts &cuts) {
  PipeDreamPlan plan;
  for (const Hierarchy::Stage &stage : stages) {
    PipeDreamPlan::Stage &result = plan.stages.emplace_back();
    result.layers = cuts.layersBetween(stage.inner, stage.outer);
    result.perLevel = stage.perLevel;
    for (int64_t replicas : stage.perLevel)
      result.replicas *= replicas;
    result.ms = stage.ms;
    result.transferMs = stage.transferMs;
    result.crossingBytes = stage.outer == cuts.count() - 1 ? 0 : cuts[stage.outer].crossingBytes;
    plan.slowestMs = std::max({plan.slowestMs, stage.ms, stage.transferMs});
  }
  return plan;
}

} // namespace

StageSearch::StageSearch(const LayerProfile &profile, llvm::ArrayRef<PipeLevel> levels, PipeCost cost)
    : profile(profile), levels(levels), cost(cost), groups(profile.layers.size()) {
  groups.joinFreeLayers(profile);
}

/// Takes a plan if it is faster than the best one, or as fast on fewer devices or in fewer stages.
bool StageSearch::offer(PipeDreamPlan plan) {
  bool faster = best.stages.empty() || plan.slowestMs * roundingSlack < best.slowestMs;
  bool equal = !faster && plan.slowestMs <= best.slowestMs * roundingSlack;
  bool smaller =
      plan.devices() < best.devices() || (plan.devices() == best.devices() && plan.stages.size() < best.stages.size());
  if (faster || (equal && smaller)) {
    plan.boundMs = best.boundMs;
    plan.cuts = best.cuts;
    plan.steps = best.steps;
    best = std::move(plan);
  }
  return faster;
}

/// The graph whose cuts include all that a plan faster than `ms` can have.
LayerGraph StageSearch::graphBelow(double ms) const {
  LayerGroups joined = groups;
  joined.joinAcross(profile, mostCrossing(levels, cost, ms));
  return LayerGraph(profile, joined);
}

/// Offers the best plan over the cuts of a graph. Returns whether all of them were searched.
bool StageSearch::search(const LayerGraph &graph, Effort effort) {
  std::optional<Cuts> cuts = Cuts::of(graph, effort == Effort::near ? windowCuts : Cuts::most);
  if (!cuts)
    return false;
  best.cuts = std::max<int64_t>(best.cuts, cuts->count());
  return levels.size() == 1 ? searchLevel(*cuts, effort) : searchLevels(*cuts, effort);
}

bool StageSearch::searchLevel(const Cuts &cuts, Effort effort) {
  int64_t most = effort == Effort::all ? allSteps : quickSteps, steps = most;
  Bottleneck bottleneck(cuts, levels[0], cost, best.boundMs, steps);
  offer(planOf(stagesOf(bottleneck.run(), cuts, levels[0], cost), cuts));
  best.steps += most - steps;
  return bottleneck.complete();
}

bool StageSearch::searchLevels(const Cuts &cuts, Effort effort) {
  int most = effort == Effort::all ? mostKept : effort == Effort::near ? nearKept : lineKept;
  int64_t steps = effort == Effort::all ? allSteps : quickSteps;
  auto solve = [&](std::vector<int> kept) {
    int64_t before = steps;
    bool faster = offer(planOf(Hierarchy(cuts, levels, cost, std::move(kept), steps).run(), cuts));
    best.steps += before - steps;
    return faster;
  };
  if (effort == Effort::near)
    return solve(keepNear(cuts, most));
  bool complete = cuts.count() <= most;
  solve(Hierarchy::keep(cuts, complete ? most : nearKept));
  for (int round = 0; round < 4 && !complete && effort == Effort::all && !closed() && solve(keepNear(cuts, nearKept));
       ++round)
    ;
  return complete && steps > 0;
}

/// Cuts with about as much compute inside as those of the best plan, and some of all others.
std::vector<int> StageSearch::keepNear(const Cuts &cuts, int most) const {
  std::vector<int> kept = Hierarchy::keep(cuts, most / 2);
  int each = most / 2 / std::max(1, static_cast<int>(best.stages.size()) - 1);
  double ms = 0;
  for (const PipeDreamPlan::Stage &stage : llvm::drop_end(best.stages)) {
    for (int layer : stage.layers)
      ms += profile.layers[layer].forwardMs + profile.layers[layer].backwardMs;
    auto all = llvm::seq(0, cuts.count());
    int at = *std::partition_point(all.begin(), all.end() - 1, [&](int cut) { return cuts[cut].ms < ms; });
    for (int cut = std::max(0, at - each / 2); cut < std::min(cuts.count(), at + each / 2 + 1); ++cut)
      kept.push_back(cut);
  }
  llvm::sort(kept);
  kept.erase(llvm::unique(kept), kept.end());
  return kept;
}

/// The nodes of a graph in an order; with `ends`, stage by stage of the best plan, and it becomes the places where the
/// stages but the last one end.
std::vector<int> StageSearch::orderOf(const LayerGraph &graph, Order order, std::vector<int> *ends) const {
  std::vector<int> stageOf(profile.layers.size()), stages(graph.size());
  for (auto [i, stage] : llvm::enumerate(best.stages))
    for (int layer : stage.layers)
      stageOf[layer] = static_cast<int>(i);
  for (int node = 0; ends && node < graph.size(); ++node)
    stages[node] = stageOf[graph.nodes[node].layers.front()];
  using Key = std::tuple<int, double, int>; // stage, priority, node
  std::priority_queue<Key, std::vector<Key>, std::greater<>> ready;
  std::vector<size_t> missing(graph.size());
  auto add = [&](int node, int time) {
    double weights = graph.nodes[node].parameterBytes / (graph.nodes[node].ms + 1e-9);
    double key = order == Order::depth          ? -time
                 : order == Order::lateWeights  ? weights
                 : order == Order::earlyWeights ? -weights
                                                : 0;
    ready.emplace(stages[node], key, node);
  };
  for (int node = 0; node < graph.size(); ++node)
    if (missing[node] = graph.nodes[node].inputs.size(); missing[node] == 0)
      add(node, 0);
  std::vector<int> result;
  while (!ready.empty()) {
    auto [stage, key, node] = ready.top();
    ready.pop();
    if (!result.empty() && stages[result.back()] != stage)
      ends->push_back(static_cast<int>(result.size()));
    result.push_back(node);
    for (int consumer : graph.nodes[node].consumers)
      if (--missing[consumer] == 0)
        add(consumer, static_cast<int>(result.size()));
  }
  return result;
}

/// Windows of up to `width` nodes on both sides of each end, with a node between them.
std::vector<LayerGraph::Window> StageSearch::windowsAround(const std::vector<int> &ends, int count, int width) const {
  std::vector<LayerGraph::Window> windows;
  for (auto [i, end] : llvm::enumerate(ends)) {
    int first = i > 0 ? (ends[i - 1] + end) / 2 + 1 : 0, last = i + 1 < ends.size() ? (end + ends[i + 1]) / 2 : count;
    LayerGraph::Window window{std::max(first, end - width), std::min(last, end + width)};
    if (window.first < window.end)
      windows.push_back(window);
  }
  return windows;
}

/// Searches around the best plan, with the layers of each stage in one order after the other, until none of them makes
/// it faster.
void StageSearch::refine() {
  constexpr Order orders[] = {Order::depth, Order::lateWeights, Order::profile, Order::earlyWeights};
  LayerGraph graph(profile, groups);
  for (Order order : orders)
    search(graph.restricted(orderOf(graph, order), {}), Effort::line);
  int failed = 0;
  for (int round = 0; round < mostRounds && failed < 4 && !closed() && best.stages.size() > 1; ++round) {
    std::vector<int> ends;
    std::vector<int> order = orderOf(graph, orders[round % 4], &ends);
    double before = best.slowestMs;
    for (int width = widestWindow; width > 0; width = width * 2 / 3) {
      LayerGraph free = graph.restricted(order, windowsAround(ends, graph.size(), width));
      if (std::optional<Cuts> cuts = Cuts::of(std::move(free), windowCuts)) {
        best.cuts = std::max<int64_t>(best.cuts, cuts->count());
        levels.size() == 1 ? searchLevel(*cuts, Effort::near) : searchLevels(*cuts, Effort::near);
        break;
      }
    }
    failed = best.slowestMs * roundingSlack < before ? 0 : failed + 1;
  }
}

PipeDreamPlan StageSearch::run() {
  const PipeLevel one{1, 1};
  if (levels.empty())
    levels = one;
  best.boundMs = lowerBound(profile, levels, cost);
  double sum = 0;
  for (const LayerProfile::Layer &layer : profile.layers)
    sum += layer.forwardMs + layer.backwardMs;
  LayerGraph graph(profile, groups);
  search(graph.restricted(orderOf(graph, Order::profile), {}), Effort::line);
  if (!closed() || best.slowestMs > sum / static_cast<double>(best.devices()) * roundingSlack) {
    // Not all devices compute all the time: a plan may be faster, or do with fewer devices.
    if (search(graphBelow(best.slowestMs), Effort::all))
      best.boundMs = best.slowestMs;
    else
      refine();
  }
  if (closed())
    best.boundMs = best.slowestMs;
  if (best.slowestMs > 0)
    best.speedup = sum / best.slowestMs;
  return std::move(best);
}
