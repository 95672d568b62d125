#include "compiler/RankPipelines.h"

#include "passes/Pipelining/StageCosts.h"
#include "passes/Planning/Cost/Collectives.h"
#include "passes/Planning/PlanText.h"

#include "mlir/Pass/PassManager.h"

#include <map>
#include <set>

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;
using namespace divisi::planning;
using pipeline::ScheduleKind;
using pipeline::ScheduleOptions;
using pipelining::StageCosts;

/// Of the plans of a stage's devices, so many are simulated: the best by the sum of all stages need not be the best by stage.
static constexpr size_t mostPlans = 4;
/// A pipeline keeps busy with a few microbatches for each stage; more make each one small.
static constexpr int64_t microbatchesPerStage[] = {1, 2, 4, 8};
static constexpr size_t refined = 2; // numbers of stages
static constexpr int64_t mostStages = 64;
/// Stages of a device under an interleaved schedule.
static constexpr int64_t chunksOfDevice = 2;

std::string PipelineCandidate::name() const {
  std::string mesh = "stage=" + std::to_string(options.stages / options.chunks);
  if (plan.mesh.devices() > 1)
    mesh += "," + nameOf(plan.mesh);
  return mesh + " " + options.schedule + " microbatches=" + std::to_string(options.microbatches);
}

namespace {

int64_t batchOf(ModuleOp module) {
  if (auto train = module.lookupSymbol<func::FuncOp>("train"))
    for (BlockArgument argument : train.getArguments())
      if (train.getArgAttr(argument.getArgNumber(), graph::names::input) && !graph::shapeOf(argument).empty())
        return graph::shapeOf(argument)[0];
  return 0;
}

/// The module in so many microbatches, and its problem.
struct InParts {
  std::shared_ptr<OwningOpRef<ModuleOp>> module;
  ModuleProblem problem;
  std::shared_ptr<const Planner> planner;
  std::string hash; // as a plan file meets the module again
};

class Search {
public:
  Search(ModuleOp module, const Cluster &cluster, const PipelineRequest &request)
      : module(module), cluster(cluster), request(request), batch(batchOf(module)) {}

  /// Every number of stages with a few microbatches for each; then other numbers of microbatches for the best.
  std::vector<PipelineCandidate> run() {
    for (int64_t stages = 2; stages <= std::min(request.devices, mostStages); ++stages)
      if (request.devices % stages == 0 && (!request.stages || request.stages == stages))
        tryStages(stages, request.microbatches ? request.microbatches : usualCount(stages));
    sort();
    if (!request.microbatches) {
      std::set<int64_t> best;
      for (const PipelineCandidate &candidate : found)
        if (best.size() < refined)
          best.insert(candidate.options.stages / candidate.options.chunks);
      for (int64_t stages : best)
        for (int64_t each : microbatchesPerStage)
          if (each * stages != usualCount(stages))
            tryStages(stages, each * stages);
      sort();
    }
    return std::move(found);
  }

private:
  void sort() {
    llvm::stable_sort(found, [](const PipelineCandidate &a, const PipelineCandidate &b) {
      return a.fits != b.fits ? a.fits : a.fits ? a.seconds < b.seconds : a.memory < b.memory;
    });
  }

  /// Four microbatches for a stage, or as many as divide the batch.
  int64_t usualCount(int64_t stages) const {
    int64_t count = 4 * stages;
    while (count > stages && batch % count)
      count /= 2;
    return count;
  }

  /// Null where the step cannot be computed in so many parts.
  const InParts *inParts(int64_t count) {
    auto [it, fresh] = parts.try_emplace(count);
    if (fresh) {
      // That some node needs the whole batch is no error here: there are other plans.
      ScopedDiagnosticHandler quiet(module.getContext(), [](Diagnostic &) { return success(); });
      auto copy = std::make_shared<OwningOpRef<ModuleOp>>(module.clone());
      PassManager manager(module.getContext());
      addMicrobatchPipeline(manager, {count});
      if (succeeded(manager.run(**copy)) && succeeded(pipelining::StepParts::of((*copy)->lookupSymbol<func::FuncOp>("train")))) {
        std::string hash = hashOfModel(**copy);
        separateScalars(**copy);
        if (auto problem = ModuleProblem::build(**copy); succeeded(problem)) {
          auto planner = std::make_shared<Planner>(problem->problem, cluster);
          it->second = {copy, std::move(*problem), std::move(planner), hash};
        }
      }
    }
    return it->second.module ? &it->second : nullptr;
  }

  /// Plans of the devices of a stage, searched for one number of microbatches: those for others are the same operation by operation,
  /// where the operations are.
  const std::vector<ModuleCandidate> &plansOf(const InParts &part, int64_t stages) {
    std::vector<std::vector<ModuleCandidate>> &known = plans[stages];
    for (const auto &list : known)
      if (list.empty() || isAlike(list[0].planner->problem, part.problem.problem))
        return list;
    std::vector<ModuleCandidate> &list = known.emplace_back();
    int64_t devices = request.devices / stages;
    PlannerOptions options;
    options.meshes = enumerateMeshes(cluster, devices);
    options.alone = devices == 1;
    Cluster roomy = cluster; // a stage has a part of what the planner thinks that all of the model needs
    roomy.device.memory *= stages;
    std::string ignored;
    if (auto candidates = planModule(**part.module, roomy, options, ignored); succeeded(candidates))
      for (ModuleCandidate &plan : *candidates)
        if (plan.pads.empty() && plan.mesh.devices() == devices && list.size() < mostPlans)
          list.push_back(std::move(plan));
    return list;
  }

  /// Whether a plan of one problem says something of the other: the same operations on tensors of the same ranks.
  static bool isAlike(const Problem &a, const Problem &b) {
    auto sameOp = [](const Problem::Op &x, const Problem::Op &y) {
      return x.kind == y.kind && x.operands == y.operands && x.results == y.results && x.rule.factors.size() == y.rule.factors.size() &&
             x.rule.operands == y.rule.operands && x.rule.results == y.rule.results;
    };
    auto sameTensor = [](const Problem::Tensor &x, const Problem::Tensor &y) {
      return x.shape.size() == y.shape.size() && x.name == y.name;
    };
    return std::equal(a.ops.begin(), a.ops.end(), b.ops.begin(), b.ops.end(), sameOp) &&
           std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(), sameTensor);
  }

  /// Whether a plan splits sizes that divide: it was made for microbatches of another size.
  static bool divides(const Problem &problem, const dist::Mesh &mesh, const Plan &plan) {
    for (auto [op, factors] : llvm::zip(problem.ops, plan.ops))
      for (auto [factor, axes] : llvm::zip(op.rule.factors, factors))
        if (factor.size % mesh.parts(axes))
          return false;
    for (auto [tensor, sharding] : llvm::zip(problem.tensors, plan.tensors))
      for (auto [size, axes] : llvm::zip(tensor.shape, sharding.dims))
        if (size % mesh.parts(axes))
          return false;
    return true;
  }

  void tryStages(int64_t stages, int64_t count) {
    if (count < 2 || batch % count)
      return;
    const InParts *part = inParts(count);
    if (!part)
      return;
    for (const ModuleCandidate &known : plansOf(*part, stages)) {
      const Problem &problem = part->problem.problem;
      if (!divides(problem, known.mesh, known.plan))
        continue;
      ModuleCandidate plan{part->planner->price(cluster, known.mesh, known.plan, known.name), {}, part->planner};
      plan.searched = known.searched;
      StageCosts costs(**part->module, part->problem, plan, cluster);
      for (ScheduleKind kind : {ScheduleKind::f1b1, ScheduleKind::interleaved, ScheduleKind::zbH1, ScheduleKind::gpipe, ScheduleKind::naive}) {
        bool common = kind != ScheduleKind::gpipe && kind != ScheduleKind::naive; // these two only if they are asked for
        if (request.schedule.empty() ? common : pipeline::nameOf(kind) == request.schedule)
          simulate(*part, costs, plan, stages, count, kind);
      }
    }
  }

  void simulate(const InParts &part, const StageCosts &costs, const ModuleCandidate &plan, int64_t devices, int64_t count,
                ScheduleKind kind) {
    ScheduleOptions schedule;
    schedule.kind = kind;
    schedule.devices = devices;
    schedule.microbatches = count;
    schedule.chunks = kind == ScheduleKind::interleaved ? chunksOfDevice : 1;
    if (!schedule.invalid().empty())
      return;
    PipelineCandidate candidate;
    candidate.options = {count, schedule.stages(), schedule.chunks, pipeline::nameOf(kind).str(), "stashed", {}};
    ScopedDiagnosticHandler quiet(module.getContext(), [](Diagnostic &) { return success(); }); // too many stages for the model
    if (failed(pipelining::assignStages(**part.module, schedule.stages(), candidate.options.cuts, costs.weights())))
      return;
    auto stages = costs.of(schedule.stages());
    std::string error;
    auto run = pipeline::simulate(schedule, stages.edges, stages.costs, costs.network(), error);
    if (!run)
      return;
    candidate.seconds = run->seconds;
    for (const auto &device : run->devices)
      candidate.memory = std::max(candidate.memory, device.peakBytes);
    candidate.fits = candidate.memory <= cluster.device.memory;
    candidate.run = std::move(*run);
    candidate.plan = plan;
    candidate.module = part.module;
    candidate.hash = part.hash;
    found.push_back(std::move(candidate));
  }

  ModuleOp module;
  const Cluster &cluster;
  const PipelineRequest &request;
  int64_t batch;
  std::map<int64_t, InParts> parts;                      // by microbatches
  std::map<int64_t, std::vector<std::vector<ModuleCandidate>>> plans; // by stages
  std::vector<PipelineCandidate> found;
};
} // namespace

std::vector<PipelineCandidate> compiler::rankPipelines(ModuleOp module, const Cluster &cluster, const PipelineRequest &request) {
  return Search(module, cluster, request).run();
}

llvm::json::Array compiler::describePipelines(const std::vector<PipelineCandidate> &candidates) {
  llvm::json::Array result;
  for (const PipelineCandidate &candidate : candidates)
    result.push_back(llvm::json::Object{{"name", candidate.name()},
                                        {"step_ms", candidate.seconds * 1e3},
                                        {"fits", candidate.fits},
                                        {"memory_bytes", candidate.memory},
                                        {"bubble", candidate.run.bubble()},
                                        {"schedule", candidate.options.schedule},
                                        {"microbatches", candidate.options.microbatches},
                                        {"stages", candidate.options.stages},
                                        {"chunks", candidate.options.chunks},
                                        {"stage_plan", candidate.plan.name},
                                        {"cuts", llvm::json::Array(candidate.options.cuts)}});
  return result;
}
