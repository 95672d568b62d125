#include "compiler/Accumulation.h"

#include "compiler/Pipeline.h"
#include "compiler/RankPipelines.h"

#include "llvm/ADT/StringSet.h"

#include <cmath>
#include <map>
#include <set>

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;
using namespace divisi::planning;

/// How many numbers of microbatches are tried, each at least twice the one before.
static constexpr int64_t mostTries = 4;
/// Of these, the tries of large programs before rematerialization is tried; and the numbers that are searched.
static constexpr int64_t firstTries = 2, mostSearched = 3;
/// Plans that are slower by this share than one that does not fit are compared with rematerialization, too, of ever
/// fewer microbatches while it is faster by this share.
static constexpr double mostOverRoomy = 0.05;

namespace {

/// Says of candidates that they are for a module in microbatches.
void name(std::vector<ModuleCandidate> &candidates, const std::shared_ptr<const SplitModule> &split) {
  for (ModuleCandidate &candidate : candidates) {
    candidate.name += " microbatches=" + std::to_string(split->microbatches);
    candidate.split = split;
  }
}

class Search {
public:
  Search(ModuleOp module, const Cluster &cluster, const PlannerOptions &options)
      : module(module), cluster(cluster), options(options), batch(batchOf(module)) {
    quick.remat = 0;
    quick.thorough = false;
    quick.everyMesh = true;
  }

  /// Plans with the fewest microbatches that may fit, then with twice as many, and so on while this helps. Numbers with
  /// which nothing fits, and smaller ones, are planned with rematerialization where that may be faster.
  llvm::Expected<std::vector<ModuleCandidate>> run() {
    PlannerOptions whole = options;
    whole.remat = options.remat.value_or(0);
    whole.onlyIfPossible = true;
    auto first = planModule(module, cluster, whole);
    if (!first || !isMemoryShort(*first, cluster))
      return first;
    const bool small = quick.searches = first->front().planner->problem.ops.size() <= mostOftenSearched;
    quick.remat = whole.remat;
    const auto &alone = first->front().prediction.memory;
    if (options.devices() > 1 && first->front().mesh.devices() == 1) // one device has no room for the parameters alone
      quick.alone &= alone.total() - alone.transient <= cluster.used(1).device.memory;
    take(std::move(*first));
    const int64_t least = fewest();
    int64_t next = more(least, small || options.remat ? mostTries : firstTries);
    if (!options.remat && isSlow()) {
      if (llvm::Error error = recompute(least ? least : 2))
        return error;
      if (next && !found.front().fits) {
        more(next, mostTries - firstTries);
        if (llvm::Error error = recompute(0))
          return error;
      }
    }
    if (options.thorough || !small)
      searchBest();
    found.front().planner->complete(found.front());
    return std::move(found);
  }

private:
  /// Plans with `count` microbatches, with twice as many, ..., while this helps. Returns the next number where that
  /// ended for the number of tries only; else 0.
  int64_t more(int64_t count, int64_t tries) {
    for (; count && tries > 0; --tries, count = divisorFrom(2 * count)) {
      auto more = plan(count, quick);
      if (!more)
        return 0;
      const bool enough = !isMemoryShort(*more, cluster);
      const bool better = isBetter(more->front(), found.front()), fits = found.front().fits;
      double &fastest = seconds[count] = more->front().prediction.seconds;
      for (const ModuleCandidate &candidate : *more)
        fastest = std::min(fastest, candidate.prediction.seconds);
      if (auto meshes = bestMeshes(*more); !meshes.empty() && more->front().fits) {
        quick.meshes = meshes;
        quick.wider = false;
      }
      take(std::move(*more));
      if (enough || (fits && !better))
        return 0;
    }
    return count;
  }

  /// Plans with rematerialization: ever fewer microbatches than `least` (0: none), then the numbers that were tried,
  /// unless they take too long even without.
  llvm::Error recompute(int64_t least) {
    for (int64_t count = divisorUpTo(least / 2); count; count = divisorUpTo(count / 2)) {
      auto better = rematerialize(count);
      if (!better)
        return better.takeError();
      if (!*better)
        break;
    }
    for (auto [count, fastest] : seconds)
      if (const ModuleCandidate &best = found.front();
          (!best.fits || fastest * (1 + mostOverRoomy) < best.prediction.seconds) && recomputed.insert(count).second)
        if (auto better = rematerialize(count); !better)
          return better.takeError();
    return llvm::Error::success();
  }

  /// The smallest divisor of the batch from `least` to the most microbatches of a step; 0 if there is none.
  int64_t divisorFrom(int64_t least) const {
    for (int64_t count = std::max<int64_t>(least, 2); count <= std::min(batch, MicrobatchOptions::most); ++count)
      if (batch % count == 0)
        return count;
    return 0;
  }

  /// The largest divisor of the batch up to `most`; 0 if there is none.
  int64_t divisorUpTo(int64_t most) const {
    while (most > 0 && batch % most != 0)
      --most;
    return most;
  }

  /// The smallest number of microbatches with which a plan may fit: state, and activations of a microbatch, divided
  /// evenly among the devices. 0 if there is none.
  int64_t fewest() const {
    const ModuleCandidate &nearest = found.front();
    int64_t devices = options.meshes.empty() ? 1 : options.meshes[0].devices();
    const double share = (double)nearest.mesh.devices() / devices;
    const auto &memory = nearest.prediction.memory;
    double room = cluster.used(devices).device.memory - (memory.total() - memory.transient) * share;
    if (nearest.fits || room <= 0)
      return nearest.fits ? divisorFrom(2) : 0;
    return divisorFrom(static_cast<int64_t>(std::ceil(memory.transient * share / room)));
  }

  /// The module in this number of microbatches; null if it cannot be split so.
  std::shared_ptr<const SplitModule> split(int64_t count) {
    auto [it, fresh] = splits.try_emplace(count);
    if (fresh) { // some node may need the whole batch: there are other plans
      ScopedDiagnosticHandler quiet(module.getContext(), [](Diagnostic &) { return success(); });
      if (auto made = splitModule(module, count); succeeded(made))
        it->second = std::move(*made);
    }
    return it->second;
  }

  /// Nothing if the module cannot be split so, or without a plan.
  std::optional<std::vector<ModuleCandidate>> plan(int64_t count, const PlannerOptions &how) {
    auto with = count > 1 ? split(count) : nullptr;
    if (count > 1 && !with)
      return std::nullopt;
    auto more = llvm::expectedToOptional(planModule(with ? with->module.get() : module, cluster, how));
    if (more && with)
      name(*more, with);
    return more;
  }

  /// Of plans with one name, the best stays.
  void take(std::vector<ModuleCandidate> more) {
    std::move(more.begin(), more.end(), std::back_inserter(found));
    llvm::stable_sort(found, isBetter);
    llvm::StringSet<> names;
    std::vector<ModuleCandidate> kept;
    for (ModuleCandidate &candidate : found)
      if (names.insert(candidate.name).second)
        kept.push_back(std::move(candidate));
    found = std::move(kept);
  }

  static int64_t countOf(const ModuleCandidate &candidate) {
    return candidate.split ? candidate.split->microbatches : 1;
  }

  /// Searches for plans like the best ones: of as many microbatches, with as many segments recomputed, on their meshes;
  /// and of the numbers with which no strategy fits, on all meshes.
  void searchBest() {
    std::vector<std::pair<int64_t, int64_t>> kinds; // microbatches, segments
    std::map<std::pair<int64_t, int64_t>, std::vector<ModuleCandidate>> alike;
    if (!quick.searches)
      for (auto [count, fastest] : seconds)
        kinds.push_back({count, 0});
    const size_t tried = kinds.size();
    for (const ModuleCandidate &candidate : found) {
      const std::pair<int64_t, int64_t> kind = {countOf(candidate), candidate.preparation.remats.size()};
      if (alike[kind].empty() && candidate.fits && kinds.size() < tried + mostSearched &&
          !llvm::is_contained(kinds, kind) &&
          candidate.prediction.seconds <= found.front().prediction.seconds * (1 + mostOverRoomy))
        kinds.push_back(kind);
      alike[kind].push_back(candidate);
    }
    for (auto [count, segments] : kinds) {
      PlannerOptions thorough = options;
      thorough.remat = segments;
      thorough.wider = false;
      thorough.thorough &= quick.searches;
      const auto &known = alike[{count, segments}];
      if (!known.empty() && known.front().fits)
        thorough.meshes = bestMeshes(known);
      if (thorough.meshes.empty() || (count == 1 && segments == 0) || (segments > 0 && quick.searches))
        continue; // it was searched
      if (auto more = plan(count, thorough))
        take(std::move(*more));
    }
    ModuleCandidate &best = found.front();
    if (!quick.searches && options.thorough && best.searched && best.preparation.pads.empty())
      best.planner->certify(options.pins, best);
    llvm::stable_sort(found, isBetter);
  }

  /// Whether no plan fits, or one that does not would be much faster.
  bool isSlow() const {
    const ModuleCandidate &best = found.front();
    return !best.fits || llvm::any_of(found, [&](const ModuleCandidate &other) {
      return !other.fits && other.prediction.seconds * (1 + mostOverRoomy) < best.prediction.seconds;
    });
  }

  /// Plans this number of microbatches with rematerialization. Returns whether that is clearly the best so far.
  llvm::Expected<bool> rematerialize(int64_t count) {
    std::vector<ModuleCandidate> whole; // of this number, or of any if it was not planned
    for (const ModuleCandidate &candidate : found)
      if (countOf(candidate) == count)
        whole.push_back(candidate);
    if (whole.empty())
      whole = found;
    auto with = count > 1 ? split(count) : nullptr;
    if (count > 1 && !with)
      return false;
    PlannerOptions recomputing = options;
    recomputing.searches = quick.searches; // searchBest does it
    recomputing.alone = quick.alone;
    auto more = planRematerialized(with ? with->module.get() : module, cluster, recomputing, whole);
    if (!more)
      return more.takeError();
    if (with)
      name(*more, with);
    const ModuleCandidate before = found.front();
    bool better = !more->empty() && isBetter(more->front(), before) &&
                  (!before.fits || more->front().prediction.seconds * (1 + mostOverRoomy) < before.prediction.seconds);
    take(std::move(*more));
    return better;
  }

  ModuleOp module;
  const Cluster &cluster;
  const PlannerOptions &options;
  PlannerOptions quick = options;
  const int64_t batch;
  std::map<int64_t, std::shared_ptr<const SplitModule>> splits;
  std::set<int64_t> recomputed;       // numbers that were tried with rematerialization
  std::map<int64_t, double> seconds;  // by microbatches: of the fastest plan without rematerialization, if it fitted
  std::vector<ModuleCandidate> found; // best first
};
} // namespace

FailureOr<std::shared_ptr<const SplitModule>> compiler::splitModule(ModuleOp module, int64_t microbatches) {
  auto split = std::make_shared<SplitModule>();
  split->module = module.clone();
  split->microbatches = microbatches;
  MicrobatchOptions options;
  options.microbatches = microbatches;
  if (failed(runPasses(*split->module, [&](OpPassManager &pm) { addMicrobatchPipeline(pm, options); })))
    return failure();
  split->hash = hashOfModel(*split->module);
  return std::shared_ptr<const SplitModule>(std::move(split));
}

llvm::Expected<std::vector<ModuleCandidate>> compiler::planAccumulating(ModuleOp module, const Cluster &cluster,
                                                                        const PlannerOptions &options,
                                                                        int64_t microbatches) {
  if (microbatches == 1)
    return planModule(module, cluster, options);
  if (microbatches == 0)
    return Search(module, cluster, options).run();
  auto split = splitModule(module, microbatches);
  if (failed(split))
    return told();
  auto found = planModule((*split)->module.get(), cluster, options);
  if (found)
    name(*found, *split);
  return found;
}
