#include "compiler/RankPipelines.h"

#include "compiler/PipelineRefinement.h"
#include "dialects/Graph/Nodes.h"
#include "passes/Planning/Cost/Collectives.h"
#include "passes/Planning/Search/MeshChoice.h"

#include "llvm/Support/Parallel.h"

#include <functional>
#include <map>
#include <set>
#include <tuple>

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;
using namespace divisi::planning;

/// The number of plans of a stage's devices that are simulated under 1F1B, and the number of the best of them that are
/// simulated under other schedules: the best plan by the sum of all stages need not be the best by stage.
static constexpr size_t mostPlans = 4, mostScheduled = 2;
/// Numbers of microbatches for each stage that are tried. A few keep a pipeline busy; with more, each becomes so small
/// that launching kernels takes longer.
static constexpr double microbatchesPerStage[] = {0.5, 1, 2, 4, 8};
static constexpr size_t refined = 2; // numbers of stages that are tried with other numbers of microbatches
static constexpr int64_t mostStages = 64;
/// The number of the best pipelines of each kind whose cuts are moved.
static constexpr size_t mostMoved = 2;
/// Pipelines are searched if the best other plan is slower than the ideal time by this share, and chosen if they are
/// faster than it by that share.
static constexpr double mostOverIdeal = 0.1, clearlyFaster = 0.05;
/// The latter where the cores that compute also copy messages, which schedules leave out.
static constexpr double fasterOnOneMachine = 0.1;
/// Stages with different numbers of devices are tried up to this number of devices and of operations.
static constexpr int64_t mostNarrow = 8;
static constexpr size_t mostNarrowOperations = 6000;
/// Stages of a device under an interleaved schedule.
static constexpr int64_t chunksOfDevice = 2;
/// In place of a number of microbatches: the minibatch of an asynchronous schedule, which is not split.
static constexpr int64_t minibatch = 0;

namespace {

const auto isBetter = std::mem_fn(&PipelineCandidate::isBetterThan);

class Search {
public:
  Search(ModuleOp module, const Cluster &cluster, const PipelineRequest &request)
      : module(module), cluster(cluster.used(request.devices)), request(request), batch(batchOf(module)) {}

  /// Tries every number of stages with its usual number of microbatches, then other numbers of microbatches for the
  /// best.
  std::vector<PipelineCandidate> run() {
    // It is no error if some node needs the whole batch, or if there are more stages than nodes: there are other plans.
    ScopedDiagnosticHandler quiet(module.getContext(), [](Diagnostic &) { return success(); });
    std::map<int64_t, std::vector<int64_t>> counts; // of microbatches, by stages
    const bool asynchronous = request.asynchronous && isMarked();
    for (int64_t stages = 2; stages <= std::min(request.devices, mostStages); ++stages)
      if (request.devices % stages == 0 && (!request.stages || request.stages == stages)) {
        if (synchronous())
          counts[stages].push_back(request.microbatches ? request.microbatches : usualCount(stages));
        if (asynchronous)
          counts[stages].push_back(minibatch);
      }
    tryAll(counts);
    if (!request.microbatches && synchronous()) {
      std::set<int64_t> best;
      for (const PipelineCandidate &candidate : found)
        if (best.size() < refined)
          best.insert(candidate.options.stages / candidate.options.chunks);
      counts.clear();
      for (int64_t stages : best)
        for (double each : microbatchesPerStage)
          if (int64_t count = countNear(each * stages);
              count != usualCount(stages) && !llvm::is_contained(counts[stages], count))
            counts[stages].push_back(count);
      tryAll(counts);
    }
    tryNarrow();
    rank();
    std::vector<PipelineCandidate *> best; // of those with equal stages, and of the others
    for (bool narrow : {false, true}) {
      size_t before = best.size();
      for (PipelineCandidate &candidate : found)
        if (candidate.options.axes.empty() != narrow && best.size() < before + mostMoved)
          best.push_back(&candidate);
    }
    llvm::parallelFor(0, best.size(), [&](size_t i) {
      int64_t count = countOf(best[i]->options);
      PipelineRefinement refinement(*steps.at(count), best[i]->options.axes.empty() ? nullptr : alone.at(count).get(),
                                    cluster, *best[i]);
      refinement.moveCuts();
      if (!request.remat)
        refinement.keepMore(); // (asynchronous ones recompute nothing)
    });
    rank();
    return std::move(found);
  }

private:
  /// Whether the batch divides into this number of microbatches. One, the whole batch, is only tried where it is asked for.
  bool isCount(int64_t count) const {
    return count == minibatch || ((count >= 2 || request.microbatches == 1) && batch % count == 0);
  }
  static int64_t countOf(const MicrobatchOptions &options) {
    return options.unsplit() ? minibatch : options.microbatches;
  }
  /// Whether the step says where its gradients end; one that was read at the level train does not.
  bool isMarked() const {
    return module->walk([](graph::AccumulateOp) { return WalkResult::interrupt(); }).wasInterrupted();
  }
  bool synchronous() const { return request.schedule != asynchronousSchedule; }
  FailureOr<StepInParts> stepIn(int64_t count) const {
    MicrobatchOptions options{std::max<int64_t>(1, count)};
    options.stages = 2; // any number of them
    options.schedule = firstSchedule(count);
    return StepInParts::make(module, options, cluster);
  }
  /// The schedules besides the first one. The tasks of one microbatch have one order.
  SmallVector<StringRef> otherSchedules(int64_t count) const {
    bool one = count == minibatch || request.microbatches == 1 || !request.schedule.empty();
    return one ? SmallVector<StringRef>{} : SmallVector<StringRef>{"interleaved", "zb-h1"};
  }
  std::string firstSchedule(int64_t count) const {
    return count == minibatch          ? asynchronousSchedule.str()
           : !request.schedule.empty() ? request.schedule
           : request.microbatches == 1 ? "naive"
                                       : "1f1b";
  }

  /// About usualMicrobatchesPerStage microbatches for each stage.
  int64_t usualCount(int64_t stages) const { return countNear(usualMicrobatchesPerStage * stages); }
  int64_t countNear(double wanted, int64_t rows = 1) const { return microbatchesNear(batch, wanted, rows); }

  /// Tries the numbers of microbatches for each number of stages. First the steps are split into microbatches, one
  /// after the other, as passes in one context are; then all numbers of stages are tried in parallel.
  void tryAll(const std::map<int64_t, std::vector<int64_t>> &counts) {
    std::vector<int64_t> stages;
    for (const auto &[number, list] : counts) {
      stages.push_back(number);
      plans[number];
      for (int64_t count : list)
        if (isCount(count) && !steps.count(count))
          steps.emplace(count, stepIn(count));
    }
    std::vector<std::vector<PipelineCandidate>> results(stages.size());
    llvm::parallelFor(0, stages.size(), [&](size_t i) {
      for (int64_t count : counts.at(stages[i]))
        if (auto it = steps.find(count); it != steps.end() && succeeded(it->second))
          tryStages(*it->second, stages[i], count, results[i]);
    });
    for (auto &list : results)
      std::move(list.begin(), list.end(), std::back_inserter(found));
    llvm::stable_sort(found, isBetter);
  }

  /// Plans of the devices of a stage. They are searched for one number of microbatches and reused for others with the
  /// same operations.
  const std::vector<ModuleCandidate> &plansOf(const StepInParts &step, int64_t stages) {
    std::vector<std::vector<ModuleCandidate>> &known = plans.at(stages);
    for (const auto &list : known)
      if (list.empty() || isAlike(list[0].planner->problem, step.problem.problem))
        return list;
    std::vector<ModuleCandidate> &list = known.emplace_back();
    int64_t devices = request.devices / stages;
    PlannerOptions options;
    options.meshes = enumerateMeshes(cluster, devices);
    options.alone = devices == 1;
    options.thorough = false;
    Cluster roomy = cluster; // the planner compares the memory of the whole model, of which a stage has a part
    roomy.device.memory *= stages;
    auto planner = std::make_shared<const Planner>(step.problem.problem, roomy);
    std::vector<Candidate> candidates = llvm::cantFail(planner->candidates(options)); // without pins
    llvm::stable_sort(candidates, planning::isBetter);
    auto isKnown = [&](const Candidate &plan) { // by another name
      return llvm::any_of(list, [&](const ModuleCandidate &other) {
        return devices == 1 || (sizesOf(other.mesh) == sizesOf(plan.mesh) && other.plan == plan.plan);
      });
    };
    for (Candidate &plan : candidates)
      if (plan.mesh.devices() == devices && list.size() < mostPlans && !isKnown(plan))
        list.push_back({std::move(plan), {}, planner});
    return list;
  }

  /// Sorts the pipelines, best first, and drops those with the cuts and figures of an earlier one, whose stages' plan
  /// differs in nothing that counts.
  void rank() {
    llvm::stable_sort(found, isBetter);
    std::set<std::tuple<std::string, std::vector<std::string>, double, double>> seen;
    llvm::erase_if(found, [&](const PipelineCandidate &candidate) {
      return !seen.emplace(candidate.name(), candidate.options.cuts, candidate.seconds, candidate.memory).second;
    });
  }

  /// Whether plans of one problem apply to the other: the same operations on tensors of the same ranks.
  static bool isAlike(const Problem &a, const Problem &b) {
    auto sameOp = [](const Problem::Op &x, const Problem::Op &y) {
      return x.kind == y.kind && x.operands == y.operands && x.results == y.results &&
             x.rule.factors.size() == y.rule.factors.size() && x.rule.operands == y.rule.operands &&
             x.rule.results == y.rule.results;
    };
    auto sameTensor = [](const Problem::Tensor &x, const Problem::Tensor &y) {
      return x.shape.size() == y.shape.size() && x.name == y.name;
    };
    return std::equal(a.ops.begin(), a.ops.end(), b.ops.begin(), b.ops.end(), sameOp) &&
           std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(), sameTensor);
  }

  /// Whether a plan that was made for microbatches of another size is valid for this problem.
  static bool isPlanOf(const Problem &problem, const dist::Mesh &mesh, const Plan &plan) {
    for (auto [op, factors] : llvm::zip(problem.ops, plan.ops))
      if (!dist::isValid(mesh, op.rule, factors))
        return false;
    for (auto [tensor, sharding] : llvm::zip(problem.tensors, plan.tensors))
      for (auto [size, axes] : llvm::zip(tensor.shape, sharding.dims))
        if (size % mesh.parts(axes))
          return false;
    return true;
  }

  void tryStages(const StepInParts &step, int64_t stages, int64_t count, std::vector<PipelineCandidate> &results) {
    auto simulate = [&](const StepInParts::Priced &plan, StringRef schedule) {
      int64_t chunks = schedule == "interleaved" ? chunksOfDevice : 1;
      MicrobatchOptions options{std::max<int64_t>(1, count), stages * chunks, chunks, schedule.str(), "stashed", {}};
      options.remat = request.remat.value_or(false) && count != minibatch ? MicrobatchOptions::allParts : 0;
      auto candidate = step.simulate(plan, options, cluster);
      if (failed(candidate) || candidate->fits || request.remat || schedule == "zb-h1" || count == minibatch)
        return candidate;
      options.remat = MicrobatchOptions::allParts;
      auto again = step.simulate(plan, options, cluster);
      return succeeded(again) && isBetter(*again, *candidate) ? std::move(again) : std::move(candidate);
    };
    struct Tried {
      std::unique_ptr<StepInParts::Priced> plan;
      PipelineCandidate simulated;
    };
    std::vector<Tried> tried;
    for (const ModuleCandidate &known : plansOf(step, stages)) {
      if (!isPlanOf(step.problem.problem, known.mesh, known.plan))
        continue;
      auto priced = step.price(cluster, known.mesh, known.plan, known.name);
      priced->plan.searched = known.searched;
      if (auto candidate = simulate(*priced, firstSchedule(count)); succeeded(candidate))
        tried.push_back({std::move(priced), std::move(*candidate)});
    }
    llvm::stable_sort(tried, [](const Tried &a, const Tried &b) { return isBetter(a.simulated, b.simulated); });
    for (size_t i = 0; i < std::min(tried.size(), mostScheduled); ++i)
      for (StringRef schedule : otherSchedules(count)) {
        if (schedule == "zb-h1" && request.remat.value_or(false))
          continue; // it keeps recomputed values until the gradients of weights
        if (auto candidate = simulate(*tried[i].plan, schedule); succeeded(candidate))
          results.push_back(std::move(*candidate));
      }
    for (Tried &entry : tried)
      results.push_back(std::move(entry.simulated));
  }

  /// Tries stages of several devices before or after stages of one device, as PipeDream replicates the first layers of
  /// a convolutional network, also if no number of stages divides the devices.
  void tryNarrow() {
    if (request.stages || request.devices > mostNarrow || request.schedule == "interleaved" || !synchronous())
      return;
    std::vector<NarrowForm> forms;
    for (int64_t width = 2; width < request.devices; ++width)
      for (int64_t wide = 1; wide * width < request.devices; ++wide)
        for (StringRef axis : {"data", "model"})
          for (bool wideFirst : {true, false})
            addForm(dist::Mesh::Axis{axis.str(), width}, wide, request.devices - wide * width, wideFirst, forms);
    std::vector<PipelineCandidate> narrow = simulateForms(forms);
    if (llvm::is_contained(otherSchedules(usualMicrobatchesPerStage), "zb-h1") && !request.remat.value_or(false)) {
      narrow.resize(std::min(narrow.size(), mostScheduled));
      forms.clear();
      for (PipelineCandidate &candidate : narrow) {
        const StepInParts &step = *steps.at(candidate.options.microbatches);
        NarrowForm &form = forms.emplace_back(NarrowForm{candidate.plan.mesh, candidate.options, &step});
        form.options.schedule = "zb-h1";
        form.options.cuts.clear();
        found.push_back(std::move(candidate));
      }
      narrow = simulateForms(forms);
    }
    std::move(narrow.begin(), narrow.end(), std::back_inserter(found));
  }

  struct NarrowForm {
    dist::Mesh mesh; // with one axis
    MicrobatchOptions options;
    const StepInParts *step;
  };
  void addForm(const dist::Mesh::Axis &axis, int64_t wide, int64_t narrow, bool wideFirst,
               std::vector<NarrowForm> &forms) {
    int64_t stages = wide + narrow, rows = axis.name == "data" ? axis.size : 1;
    int64_t count = request.microbatches ? request.microbatches : countNear(usualMicrobatchesPerStage * stages, rows);
    const StepInParts *step = stepOf(count);
    if (!step || step->problem.ops.size() > mostNarrowOperations)
      return;
    if (!alone.count(count))
      alone[count] = step->priceAlone(cluster);
    std::string text;
    for (int64_t i = 0; i < stages; ++i)
      text += (i ? "," : "") + ((i < (wideFirst ? wide : narrow)) == wideFirst ? axis.name : "none");
    MicrobatchOptions options{count, stages, 1, firstSchedule(count)};
    options.axes = dist::StageAxes::parse(text);
    options.remat = request.remat.value_or(false) ? MicrobatchOptions::allParts : 0;
    dist::Mesh mesh;
    mesh.axes.push_back(axis);
    forms.push_back({mesh, options, step});
  }

  /// Simulates these pipelines; returns the possible ones, best first.
  std::vector<PipelineCandidate> simulateForms(const std::vector<NarrowForm> &forms) const {
    std::vector<std::optional<PipelineCandidate>> results(forms.size());
    llvm::parallelFor(0, forms.size(), [&](size_t i) {
      const NarrowForm &form = forms[i];
      auto plan = llvm::cantFail(planByStrategy(form.step->problem.problem, form.mesh, {})).plan; // without pins
      if (!plan)
        return;
      auto candidate =
          form.step->simulateNarrow(form.mesh, *plan, form.mesh.axes[0].name == "data" ? "data" : "operator",
                                    *alone.at(form.options.microbatches), form.options, cluster);
      if (succeeded(candidate))
        results[i] = std::move(*candidate);
    });
    std::vector<PipelineCandidate> made;
    for (auto &candidate : results)
      if (candidate)
        made.push_back(std::move(*candidate));
    llvm::stable_sort(made, isBetter);
    return made;
  }

  /// The step in `count` microbatches, which is split now unless it was before; null if that is impossible.
  const StepInParts *stepOf(int64_t count) {
    if (!isCount(count))
      return nullptr;
    auto it = steps.find(count);
    if (it == steps.end())
      it = steps.emplace(count, stepIn(count)).first;
    return succeeded(it->second) ? &*it->second : nullptr;
  }

  ModuleOp module;
  const Cluster cluster;
  const PipelineRequest &request;
  int64_t batch;
  std::map<int64_t, FailureOr<StepInParts>> steps;                    // by microbatches
  std::map<int64_t, std::unique_ptr<StepInParts::Priced>> alone;      // costs on one device
  std::map<int64_t, std::vector<std::vector<ModuleCandidate>>> plans; // by stages
  std::vector<PipelineCandidate> found;
};
} // namespace

int64_t compiler::batchOf(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>())
    for (BlockArgument argument : function.getArguments())
      if (function.getArgAttr(argument.getArgNumber(), graph::names::input) && !graph::shapeOf(argument).empty())
        return graph::shapeOf(argument)[0];
  return 0;
}

int64_t compiler::microbatchesNear(int64_t batch, double wanted, int64_t rows, int64_t multiple) {
  int64_t nearest = 1;
  auto distance = [&](int64_t count) { return std::max(count / wanted, wanted / count); };
  for (int64_t count = std::max<int64_t>(2, multiple); count <= std::min({batch, (int64_t)(2 * wanted), MicrobatchOptions::most}); ++count)
    if (batch % (count * rows) == 0 && count % multiple == 0 && (nearest == 1 || distance(count) < distance(nearest)))
      nearest = count;
  return nearest;
}

std::vector<PipelineCandidate> compiler::rankPipelines(ModuleOp module, const Cluster &cluster,
                                                       const PipelineRequest &request) {
  return Search(module, cluster, request).run();
}

std::string compiler::whyNoPipeline(ModuleOp module, const Cluster &cluster, const PipelineRequest &request) {
  int64_t batch = batchOf(module), stages = request.stages;
  for (int64_t count = 2; !stages && count <= request.devices; ++count)
    if (request.devices % count == 0)
      stages = count;
  std::string text = "no pipeline divides: ";
  if (!stages || stages > mostStages || request.devices % stages)
    return text + std::to_string(request.devices) + " devices have no number of stages from 2 to " +
           std::to_string(mostStages) + (request.stages ? " such as " + std::to_string(request.stages) : "");
  const bool unsplit = request.schedule == asynchronousSchedule;
  int64_t count = unsplit                ? 1
                  : request.microbatches ? request.microbatches
                                         : microbatchesNear(batch, usualMicrobatchesPerStage * stages);
  if (!unsplit && (batch % count || (count == 1 && request.microbatches != 1)))
    return text + "the batch of " + std::to_string(batch) + " is no multiple of " +
           (count > 1 ? std::to_string(count) + " microbatches" : "a number of microbatches for " + std::to_string(stages) + " stages") +
           "; --microbatches 1 has stages work on the whole batch";
  if (count == 1 && !unsplit && !request.schedule.empty() && request.schedule != "naive")
    return "no pipeline: --schedule " + request.schedule + " is for several microbatches, and the batch stays whole: "
           "--microbatches N splits it (batch norm then uses the statistics of each microbatch)";
  std::string reason;
  ScopedDiagnosticHandler take(module.getContext(), [&](Diagnostic &diagnostic) {
    if (std::string node = graph::pathOf(diagnostic.getLocation()); reason.empty())
      reason = (node.empty() ? "" : "node '" + node + "' ") + diagnostic.str();
    return success();
  });
  MicrobatchOptions options{count, stages, 1, unsplit || count > 1 ? request.schedule : "naive"};
  if (options.schedule.empty())
    options.schedule = "1f1b";
  if (options.schedule == "interleaved")
    options.stages *= options.chunks = chunksOfDevice;
  auto step = StepInParts::make(module, options, cluster);
  if (succeeded(step))
    (void)step->simulate(*step->priceAlone(cluster), options, cluster);
  if (reason.empty())
    return text + "no number of stages and microbatches that was tried fits the model; " + std::to_string(stages) +
           " stages and " + std::to_string(count) + " microbatches can be asked for with --mesh stage=" +
           std::to_string(stages) + " --schedule " + options.schedule +
           (unsplit ? "" : " --microbatches " + std::to_string(count));
  return "no pipeline: " + reason;
}

bool compiler::mayPipelinesWin(const Cluster &cluster, const ModuleCandidate &best, int64_t devices) {
  // the times of pipelines are not measured, so they cannot be compared with measured ones
  if (!best.fits || best.measured > 0)
    return !best.fits;
  double ideal = best.planner->computation(cluster.used(devices)) / static_cast<double>(devices);
  return best.prediction.seconds > (1 + mostOverIdeal) * ideal;
}

std::optional<PipelineCandidate> compiler::betterPipeline(ModuleOp module, const Cluster &cluster,
                                                          const PipelineRequest &request, const ModuleCandidate &best) {
  if (request.devices < 2 || !mayPipelinesWin(cluster, best, request.devices))
    return std::nullopt;
  std::vector<PipelineCandidate> ranked = rankPipelines(module, cluster, request);
  const double gain = cluster.copies ? fasterOnOneMachine : clearlyFaster;
  if (ranked.empty() || !ranked[0].fits || (best.fits && ranked[0].seconds > (1 - gain) * best.prediction.seconds))
    return std::nullopt;
  return std::move(ranked[0]);
}
