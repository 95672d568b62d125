#include "passes/Planning/ModulePlanner.h"

#include "dialects/Graph/Nodes.h"
#include "passes/Planning/ApplyPadding.h"
#include "passes/Planning/ApplyPlan.h"
#include "passes/Planning/NarrowPlan.h"
#include "passes/Planning/Passes.h"
#include "passes/Planning/Search/Forms.h"
#include "passes/Planning/Search/PinnedPlaces.h"

#include "llvm/Support/FormatVariadic.h"

#include <array>
#include <cmath>
#include <map>

using namespace mlir;
using namespace divisi;
using namespace divisi::planning;

/// Rematerialization is tried if a plan that does not fit is faster by at least this share.
static constexpr double leastRematCost = 0.05;
/// The number of segments is searched in steps of 1 / rematSteps of all segments.
static constexpr size_t rematSteps = 16;
/// The number of meshes that count as the best ones.
static constexpr size_t mostBest = 3;

void planning::separateScalars(ModuleOp module) {
  SmallVector<Operation *> shared;
  module.walk([&](Operation *op) {
    auto broadcast = dyn_cast<graph::BroadcastOp>(op);
    auto constant = dyn_cast<graph::ConstantOp>(op);
    if ((broadcast && graph::tensorType(broadcast.getX()).getNumElements() == 1) ||
        (constant && constant.getValue().isSplat()))
      shared.push_back(op);
  });
  for (Operation *op : shared) {
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : op->getUses())
      uses.push_back(&use);
    for (size_t i = 1; i < uses.size(); ++i)
      uses[i]->set(OpBuilder(op).clone(*op)->getResult(0));
  }
  graph::nameNodes(module);
}

llvm::Expected<std::vector<NamedPad>> planning::padForStrategy(ModuleOp module, const dist::Mesh &mesh,
                                                               const StrategyOptions &options) {
  std::vector<NamedPad> pads;
  for (;;) { // each iteration pads one size, of which there are finitely many
    auto problem = ModuleProblem::build(module);
    if (failed(problem))
      return told();
    auto found = planByStrategy(problem->problem, mesh, options);
    if (!found)
      return found.takeError();
    if (found->plan)
      return pads;
    pads.push_back(nameOf(*problem, *found->pad));
    applyPadding(module, *problem, PadClass(problem->problem, *found->pad));
  }
}

/// The predicted seconds of a strategy's step on a mesh; none if it is not possible.
static std::optional<double> secondsOf(ModuleOp module, const dist::Mesh &mesh, const StrategyOptions &options,
                                       const Cluster &cluster) {
  OwningOpRef<ModuleOp> copy = module.clone();
  auto pads = llvm::expectedToOptional(padForStrategy(*copy, mesh, options));
  auto padded = ModuleProblem::build(*copy);
  if (!pads || failed(padded))
    return std::nullopt;
  const Planner planner(std::move(padded->problem), cluster);
  auto plan = planIfAny(planner.problem, mesh, options);
  if (!plan)
    return std::nullopt;
  return planner.price(cluster, mesh, std::move(*plan), "").prediction.seconds;
}

llvm::Expected<StrategyMesh> planning::prepareStrategy(ModuleOp module, const dist::Mesh &mesh,
                                                       const StrategyOptions &options, StringRef kind) {
  StrategyMesh result{mesh, {}};
  std::vector<dist::Mesh> others;
  const bool named = llvm::any_of(module.getOps<func::FuncOp>(), // axes of the mesh
                                  [](func::FuncOp function) { return function->hasAttr(dist::names::stageAxes); });
  if (options.pins.empty() && !named) {
    auto problem = ModuleProblem::build(module);
    if (failed(problem))
      return told();
    others = meshesForGroups(problem->problem, mesh);
    llvm::erase_if(others, [](const dist::Mesh &other) { return !isReasonable(other); });
  }
  if (!others.empty()) {
    const Cluster cluster = nominalCluster(kind, mesh.devices());
    auto least = secondsOf(module, mesh, options, cluster);
    for (const dist::Mesh &other : others)
      if (auto seconds = secondsOf(module, other, options, cluster);
          least && seconds && *seconds < *least * (1 - sameTime)) {
        least = seconds;
        result.mesh = other;
      }
  }
  auto pads = padForStrategy(module, result.mesh, options);
  if (!pads)
    return pads.takeError();
  result.pads = std::move(*pads);
  return result;
}

std::vector<std::string> ModuleCandidate::forms() const { return recognize(planner->problem, mesh, plan); }

bool planning::preferFewerDevices(std::vector<ModuleCandidate> &candidates) {
  auto all = llvm::map_to_vector(candidates, [](const Candidate &candidate) { return &candidate; });
  auto chosen = candidates.begin() + (ptrdiff_t)preferred(all);
  const bool changed = chosen != candidates.begin();
  std::rotate(candidates.begin(), chosen, chosen + 1);
  return changed;
}

namespace {

/// Gives the bound of a plan that is dropped to the one that stays.
void takeBound(ModuleCandidate &to, const ModuleCandidate &from) {
  if (from.bound <= 0)
    return;
  to.bound = from.bound;
  to.searchCost = from.searchCost;
  to.boundMesh = from.boundMesh;
}

/// Of sorted candidates, drops those with the figures of an earlier one, the same plan by another name; and those for
/// several devices that split nothing, if there is one for one device.
void dropEqual(std::vector<ModuleCandidate> &candidates) {
  auto alone =
      llvm::find_if(candidates, [](const ModuleCandidate &candidate) { return candidate.mesh.devices() == 1; });
  if (alone != candidates.end()) {
    auto isIdle = [](const ModuleCandidate &other) { return other.mesh.devices() > 1 && splitsNothing(other.plan); };
    for (const ModuleCandidate &candidate : candidates)
      if (isIdle(candidate))
        takeBound(*alone, candidate);
    llvm::erase_if(candidates, isIdle);
  }
  std::map<std::array<double, 5>, ModuleCandidate *> first;
  std::vector<ModuleCandidate> kept;
  kept.reserve(candidates.size());
  for (ModuleCandidate &candidate : candidates) {
    const Prediction &p = candidate.prediction;
    auto [it, fresh] =
        first.try_emplace({p.seconds, p.compute, p.communication, p.bytesSent, p.memory.total()}, nullptr);
    if (fresh)
      it->second = &kept.emplace_back(std::move(candidate));
    else
      takeBound(*it->second, candidate);
  }
  candidates = std::move(kept);
}

/// Plans a module without rematerialization.
llvm::Expected<std::vector<ModuleCandidate>> planUnchanged(ModuleOp module, const Cluster &cluster,
                                                           const PlannerOptions &options) {
  auto problem = ModuleProblem::build(module);
  if (failed(problem))
    return told();
  std::vector<ModuleCandidate> result;
  std::string wrong = "pins need several devices";
  auto planner = std::make_shared<Planner>(std::move(problem->problem), cluster);
  if (options.onlyIfPossible) {
    Candidate alone = planner->alone();
    int64_t devices = options.devices();
    if (alone.prediction.memory.total() / (double)devices > cluster.used(devices).device.memory) {
      result.push_back({std::move(alone), {}, planner});
      return result;
    }
  }
  auto found = planner->candidates(options);
  if (!found)
    wrong = llvm::toString(found.takeError());
  else
    for (Candidate &candidate : *found)
      result.push_back({std::move(candidate), {}, planner});
  std::vector<dist::Mesh> meshes = options.meshes;
  // The strategy "operator": the same devices along an axis "model".
  if (options.operators && !meshes.empty() && meshes[0].axes.size() == 1 && meshes[0].axes[0].name == "data") {
    dist::Mesh &operators = meshes.emplace_back(meshes[0]);
    operators.axes[0].name = "model";
  }
  const bool settled = !meshes.empty() && llvm::any_of(result, [&](const ModuleCandidate &candidate) {
    return planner->isSettled(candidate, meshes[0].devices());
  });
  for (const dist::Mesh &mesh : settled ? std::vector<dist::Mesh>() : meshes) {
    if (mesh.axes.size() > 1 && meshes.size() > 1 && planner->problem.ops.size() > mostThorough)
      continue;
    if (llvm::any_of(result, [&](const auto &other) { return !other.searched && nameOf(other.mesh) == nameOf(mesh); }))
      continue; // a strategy needs no padding there
    auto strategy = llvm::expectedToOptional(planByStrategy(planner->problem, mesh, {options.pins}));
    if (!strategy || strategy->plan)
      continue;
    OwningOpRef<ModuleOp> copy = module.clone();
    auto pads = llvm::expectedToOptional(padForStrategy(*copy, mesh, {options.pins}));
    auto padded = ModuleProblem::build(*copy);
    if (!pads || failed(padded))
      continue;
    PlannerOptions only = options;
    only.meshes = {mesh};
    only.alone = false;
    only.wider = false;
    only.best = fastest(result);
    auto second = std::make_shared<Planner>(std::move(padded->problem), cluster);
    auto more = llvm::expectedToOptional(second->candidates(only));
    for (Candidate &candidate : more ? *more : std::vector<Candidate>()) {
      candidate.name += " padded";
      result.push_back({std::move(candidate), {{}, *pads}, second});
    }
  }
  if (result.empty())
    return llvm::createStringError(wrong);
  llvm::stable_sort(result, isBetter);
  // The lower bound of the best searched plan, on the whole problem; of a large program if nothing else is faster.
  auto searched = llvm::find_if(result, [](const ModuleCandidate &candidate) { return candidate.searched; });
  if (options.thorough && searched != result.end() && searched->preparation.pads.empty() &&
      (planner->problem.ops.size() <= mostThorough || searched == result.begin() || isTie(*searched, result[0]))) {
    planner->certify(options.pins, *searched);
    llvm::stable_sort(result, isBetter);
  }
  dropEqual(result);
  preferFewerDevices(result);
  result[0].planner->complete(result[0]);
  return result;
}

/// The memory of plans by the number of segments that they recompute: a line, if each segment frees the same memory.
class MemoryLine {
public:
  explicit MemoryLine(double room) : room(room) {}

  /// Of these plans, the one that needs the least memory: that of the most sharding, with each number of segments.
  void add(size_t segments, llvm::ArrayRef<const ModuleCandidate *> plans) {
    if (plans.empty())
      return;
    auto bytes = llvm::map_range(plans, [](const ModuleCandidate *plan) { return plan->prediction.memory.total(); });
    points.push_back({(double)segments, *std::min_element(bytes.begin(), bytes.end())});
    auto distance = [&](const auto &point) { return std::abs(point.second - room); };
    llvm::sort(points, [&](const auto &a, const auto &b) { return distance(a) < distance(b); });
  }

  /// Whether two points give a line on which memory falls.
  bool isKnown() const { return points.size() > 1 && freed() > 0; }

  /// Whether with a segment less no plan should fit: the segments that free most come first, and those behind `segments` free
  /// so much each.
  bool isLeast(size_t segments) const {
    auto at = llvm::find_if(points, [&](const auto &point) { return point.first == (double)segments; });
    auto next = points.end(); // with more segments
    for (auto point = points.begin(); point != points.end(); ++point)
      if (point->first > (double)segments && (next == points.end() || point->first < next->first))
        next = point;
    return at != points.end() && next != points.end() &&
           at->second + (at->second - next->second) / (next->first - at->first) > room;
  }

  /// The smallest number of segments with which a plan should fit, by the two points that are closest to that.
  size_t least() const {
    return std::max<double>(0, std::ceil(points[0].first + (points[0].second - room) / freed()));
  }

private:
  double freed() const { return (points[1].second - points[0].second) / (points[0].first - points[1].first); }

  double room;
  std::vector<std::pair<double, double>> points; // segments and bytes, the closest to the room first
};

/// Plans with a number of segments recomputed.
class RematPlans {
public:
  RematPlans(ModuleOp module, const Cluster &cluster, const PlannerOptions &options)
      : module(module), cluster(cluster), options(options), segments(rematSegments(module)) {}

  size_t most() const { return segments.size(); }

  llvm::Expected<std::vector<ModuleCandidate>> plan(size_t count) { return plan(count, options); }

  /// The plans with about the least number of segments for which a plan fits and is better than `whole`, the plans
  /// without rematerialization. Only the best meshes of `whole` are planned with all segments, and the best of them
  /// with fewer.
  llvm::Expected<std::vector<ModuleCandidate>> search(const std::vector<ModuleCandidate> &whole) {
    PlannerOptions promising = options;
    promising.wider = false;
    if (auto best = bestMeshes(whole); !best.empty()) // `whole` may be the estimate of one device alone
      promising.meshes = best;
    PlannerOptions quick = promising;
    quick.thorough = false;
    quick.everyMesh = true;
    quick.searches = whole.front().planner->problem.ops.size() <= mostOftenSearched;
    const size_t step = std::max<size_t>(1, most() / rematSteps);
    size_t low = 0, high = most();
    auto isGood = [&](const ModuleCandidate &best) { return best.fits && isBetter(best, whole.front()); };
    auto all = plan(most(), quick);
    if (!all || !isGood(all->front()))
      return all;
    std::vector<ModuleCandidate> least = std::move(*all); // with `high` segments
    if (least.front().mesh.devices() > 1) {
      promising.meshes = quick.meshes = {least.front().mesh};
      quick.alone = quick.operators = false;
    }
    MemoryLine line(cluster.used(least.front().mesh.devices()).device.memory);
    const bool ofOneMesh = least.front().mesh.devices() > 1;
    auto onMesh = [mesh = nameOf(least.front().mesh)](const std::vector<ModuleCandidate> &plans) {
      llvm::SmallVector<const ModuleCandidate *> same;
      for (const ModuleCandidate &plan : plans)
        if (nameOf(plan.mesh) == mesh)
          same.push_back(&plan);
      return same;
    };
    line.add(most(), onMesh(least));
    auto same = onMesh(whole); // also with rematerialization, or of several numbers of microbatches
    llvm::erase_if(same, [](const ModuleCandidate *plan) { return !plan->preparation.remats.empty(); });
    if (!same.empty() && !same.front()->fits) {
      llvm::erase_if(same, [split = same.front()->split](const ModuleCandidate *plan) { return plan->split != split; });
      line.add(0, same);
    }
    auto isEnough = [&](size_t count) -> llvm::Expected<bool> {
      auto found = plan(count, quick);
      if (!found)
        return found.takeError();
      line.add(count, onMesh(*found));
      const bool enough = isGood(found->front());
      (enough ? high : low) = count;
      if (enough)
        least = std::move(*found);
      return enough;
    };
    bool helped = true; // the last guess
    while (high - low > step) {
      const bool guessed = helped && line.isKnown();
      const size_t before = high - low;
      const size_t count = std::clamp(guessed ? line.least() : low + (high - low) / 2, low + 1, high - 1);
      auto enough = isEnough(count);
      if (enough && *enough && guessed && ofOneMesh && line.isLeast(count))
        low = count - 1;
      else if (enough && *enough && guessed && count > low + step)
        enough = isEnough(count - step);
      if (!enough)
        return enough.takeError();
      helped = !guessed || high - low <= before / 2;
    }
    return options.searches ? plan(high, promising) : std::move(least);
  }

private:
  llvm::Expected<std::vector<ModuleCandidate>> plan(size_t count, const PlannerOptions &options) {
    if (count == 0)
      return planUnchanged(module, cluster, options);
    OwningOpRef<ModuleOp> copy = module.clone();
    std::vector<NamedRemat> chosen(segments.begin(), segments.begin() + count);
    if (llvm::Error error = rematerialize(*copy, chosen))
      return error;
    auto result = planUnchanged(*copy, cluster, options);
    if (result)
      for (ModuleCandidate &candidate : *result) {
        candidate.name += " remat=" + std::to_string(count);
        candidate.preparation.remats = chosen;
      }
    return result;
  }

  ModuleOp module;
  const Cluster &cluster;
  const PlannerOptions &options;
  const std::vector<NamedRemat> segments;
};
} // namespace

std::vector<dist::Mesh> planning::bestMeshes(const std::vector<ModuleCandidate> &candidates) {
  std::vector<dist::Mesh> result;
  for (const ModuleCandidate &candidate : candidates)
    if (candidate.mesh.devices() > 1 && result.size() < mostBest &&
        llvm::none_of(result, [&](const dist::Mesh &mesh) { return nameOf(mesh) == nameOf(candidate.mesh); }))
      result.push_back(candidate.mesh);
  return result;
}

bool planning::isMemoryShort(const std::vector<ModuleCandidate> &candidates, const Cluster &cluster) {
  const ModuleCandidate &best = candidates[0];
  return !best.fits || llvm::any_of(candidates, [&](const ModuleCandidate &other) {
    const auto &memory = other.prediction.memory;
    return !other.fits && memory.total() - memory.transient < cluster.used(other.mesh.devices()).device.memory &&
           other.prediction.seconds * (1 + leastRematCost) < best.prediction.seconds;
  });
}

llvm::Expected<std::vector<ModuleCandidate>> planning::planRematerialized(ModuleOp module, const Cluster &cluster,
                                                                          const PlannerOptions &options,
                                                                          const std::vector<ModuleCandidate> &whole) {
  RematPlans plans(module, cluster, options);
  if (plans.most() == 0)
    return std::vector<ModuleCandidate>();
  return plans.search(whole);
}

llvm::Expected<std::vector<ModuleCandidate>> planning::planModule(ModuleOp module, const Cluster &cluster,
                                                                  const PlannerOptions &options) {
  separateScalars(module);
  if (options.remat == 0)
    return planUnchanged(module, cluster, options);
  RematPlans plans(module, cluster, options);
  if (options.remat && plans.most() == 0)
    warnOfNoParts(module);
  if (options.remat)
    return plans.plan(std::min<size_t>(plans.most(), *options.remat));
  auto result = plans.plan(0);
  if (!result || !isMemoryShort(*result, cluster))
    return result;
  auto again = planRematerialized(module, cluster, options, *result);
  if (!again)
    return again;
  std::move(again->begin(), again->end(), std::back_inserter(*result));
  llvm::stable_sort(*result, isBetter);
  return result;
}

LogicalResult planning::applyCandidate(ModuleOp module, const ModuleCandidate &candidate, const PlanSubject &subject) {
  const std::vector<NamedRemat> &remats = candidate.preparation.remats;
  if (!remats.empty())
    if (llvm::Error error = rematerialize(module, remats))
      return module.emitError(llvm::toString(std::move(error)));
  if (candidate.mesh.devices() == 1)
    return success();
  for (const NamedPad &pad : candidate.preparation.pads) {
    auto problem = ModuleProblem::build(module);
    if (failed(problem))
      return failure();
    applyPadding(module, *problem, PadClass(problem->problem, *requestOf(*problem, pad)));
  }
  auto problem = ModuleProblem::build(module);
  if (failed(problem))
    return failure();
  Plan plan = narrow(module, *problem, candidate.mesh, candidate.plan);
  writePlan(module, subject, *problem, plan, candidate.mesh, candidate.preparation);
  applyPlan(module, *problem, plan, candidate.mesh);
  return success();
}

std::string planning::describeChoice(const std::vector<ModuleCandidate> &candidates) {
  const ModuleCandidate &best = candidates[0];
  auto milliseconds = [](const Candidate &candidate) {
    double seconds = candidate.measured > 0 ? candidate.measured : candidate.prediction.seconds;
    return llvm::formatv("{0:f2} ms", seconds * 1e3).str();
  };
  std::string text = "plan: " + best.name + ", " + milliseconds(best) + " a step expected";
  if (best.measured > 0)
    text += " by measured times";
  if (!best.fits)
    text +=
        llvm::formatv(", but it needs {0:f2} GB, more than a device has", best.prediction.memory.total() * 1e-9).str();
  for (const ModuleCandidate &other : candidates)
    if (other.fits && (best.mesh.devices() == 1) != (other.mesh.devices() == 1))
      return text + " (" + other.name + ": " + milliseconds(other) + ")";
  return text;
}
