#include "compiler/Accumulation.h"

#include "compiler/Pipeline.h"
#include "compiler/RankPipelines.h"

#include "mlir/Pass/PassManager.h"

#include <cmath>
#include <map>

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;
using namespace divisi::planning;

/// How many numbers of microbatches are tried, each at least twice the one before.
static constexpr int mostTries = 4;
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
  }

  /// Plans with the fewest microbatches that may fit, then with twice as many, and so on while this helps. If no plan
  /// fits, or only slow ones, the best number is planned with rematerialization, then the last with which nothing fits
  /// and smaller ones.
  llvm::Expected<std::vector<ModuleCandidate>> run() {
    PlannerOptions whole = options;
    whole.remat = options.remat.value_or(0);
    whole.onlyIfPossible = true;
    auto first = planModule(module, cluster, whole);
    if (!first || !isMemoryShort(*first, cluster))
      return first;
    take(std::move(*first));
    quick.remat = whole.remat;
    int64_t best = 1, tooFew = 1; // counts: of the best plan, and the last with which nothing fits
    for (int64_t tries = 0, count = fewest(); count && tries < mostTries; ++tries, count = divisorFrom(2 * count)) {
      auto more = plan(count, quick);
      if (!more)
        break;
      if (!more->front().fits)
        tooFew = count;
      const bool enough = !isMemoryShort(*more, cluster);
      const bool better = isBetter(more->front(), found.front());
      if (better)
        best = count;
      const bool fits = found.front().fits;
      if (auto meshes = bestMeshes(*more); !meshes.empty() && more->front().fits) {
        quick.meshes = meshes;
        quick.wider = false;
      }
      take(std::move(*more));
      if (enough || (fits && !better))
        break;
    }
    if (options.thorough && best > 1) {
      PlannerOptions thorough = quick;
      thorough.thorough = true;
      replace(best, plan(best, thorough));
    }
    if (!options.remat && isSlow()) {
      if (best != tooFew)
        if (auto better = rematerialize(best); !better)
          return better.takeError();
      for (int64_t count = tooFew; count; count = divisorUpTo(count / 2)) { // recomputing, fewer may do
        auto better = rematerialize(count);
        if (!better)
          return better.takeError();
        if (!*better)
          break;
      }
    }
    return std::move(found);
  }

private:
  /// The smallest divisor of the batch from `least` on; 0 if there is none.
  int64_t divisorFrom(int64_t least) const {
    for (int64_t count = std::max<int64_t>(least, 2); count <= batch; ++count)
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

  std::optional<std::vector<ModuleCandidate>> plan(int64_t count, const PlannerOptions &how) {
    auto with = split(count);
    if (!with)
      return std::nullopt;
    auto more = llvm::expectedToOptional(planModule(with->module.get(), cluster, how));
    if (more)
      name(*more, with);
    return more;
  }

  void take(std::vector<ModuleCandidate> more) {
    std::move(more.begin(), more.end(), std::back_inserter(found));
    llvm::stable_sort(found, isBetter);
  }

  static int64_t countOf(const ModuleCandidate &candidate) {
    return candidate.split ? candidate.split->microbatches : 1;
  }

  void replace(int64_t count, std::optional<std::vector<ModuleCandidate>> more) {
    if (!more)
      return;
    llvm::erase_if(found, [&](const ModuleCandidate &candidate) { return countOf(candidate) == count; });
    take(std::move(*more));
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
    auto more = planRematerialized(with ? with->module.get() : module, cluster, options, whole);
    if (!more)
      return more.takeError();
    if (with)
      name(*more, with);
    const ModuleCandidate before = found.front();
    bool better = !more->empty() && isBetter(more->front(), before) &&
                  (!before.fits ||
                   more->front().prediction.seconds * (1 + mostOverRoomy) < before.prediction.seconds);
    take(std::move(*more));
    return better;
  }

  ModuleOp module;
  const Cluster &cluster;
  const PlannerOptions &options;
  PlannerOptions quick = options;
  const int64_t batch;
  std::map<int64_t, std::shared_ptr<const SplitModule>> splits;
  std::vector<ModuleCandidate> found; // best first
};
} // namespace

FailureOr<std::shared_ptr<const SplitModule>> compiler::splitModule(ModuleOp module, int64_t microbatches) {
  auto split = std::make_shared<SplitModule>();
  split->module = module.clone();
  split->microbatches = microbatches;
  PassManager manager(module.getContext());
  MicrobatchOptions options;
  options.microbatches = microbatches;
  addMicrobatchPipeline(manager, options);
  if (failed(manager.run(*split->module)))
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
