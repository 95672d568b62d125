#include "compiler/RankPipelines.h"

#include "passes/Pipelining/StageCosts.h"
#include "passes/Planning/Cost/Collectives.h"

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
  std::map<int64_t, std::vector<ModuleCandidate>> plans; // by devices of a stage
};

class Search {
public:
  Search(ModuleOp module, const Cluster &cluster, const PipelineRequest &request)
      : module(module), cluster(cluster), request(request) {}

  std::vector<PipelineCandidate> run() {
    int64_t batch = batchOf(module);
    for (int64_t devices = 2; devices <= std::min(request.devices, mostStages); ++devices) {
      if (request.devices % devices || (request.stages && request.stages != devices))
        continue;
      std::set<int64_t> counts;
      for (int64_t each : microbatchesPerStage)
        counts.insert(request.microbatches ? request.microbatches : each * devices);
      for (int64_t count : counts)
        if (count > 1 && batch % count == 0)
          tryStages(devices, count);
    }
    llvm::stable_sort(found, [](const PipelineCandidate &a, const PipelineCandidate &b) {
      return a.fits != b.fits ? a.fits : a.fits ? a.seconds < b.seconds : a.memory < b.memory;
    });
    return std::move(found);
  }

private:
  /// Null where the step cannot be computed in so many parts.
  InParts *inParts(int64_t count) {
    auto [it, fresh] = parts.try_emplace(count);
    if (fresh) {
      // That some node needs the whole batch is no error here: there are other plans.
      ScopedDiagnosticHandler quiet(module.getContext(), [](Diagnostic &) { return success(); });
      auto copy = std::make_shared<OwningOpRef<ModuleOp>>(module.clone());
      PassManager manager(module.getContext());
      addMicrobatchPipeline(manager, {count});
      if (succeeded(manager.run(**copy))) {
        separateScalars(**copy);
        if (auto problem = ModuleProblem::build(**copy); succeeded(problem))
          it->second = {copy, std::move(*problem), {}};
      }
    }
    return it->second.module ? &it->second : nullptr;
  }

  const std::vector<ModuleCandidate> &plansOf(InParts &part, int64_t devices, int64_t stages) {
    auto [it, fresh] = part.plans.try_emplace(devices);
    if (fresh) {
      PlannerOptions options;
      options.meshes = enumerateMeshes(cluster, devices);
      options.alone = devices == 1;
      Cluster roomy = cluster; // a stage has a part of what the planner thinks that all of the model needs
      roomy.device.memory *= stages;
      std::string ignored;
      if (auto plans = planModule(**part.module, roomy, options, ignored); succeeded(plans))
        for (ModuleCandidate &plan : *plans)
          if (plan.pads.empty() && plan.mesh.devices() == devices && it->second.size() < mostPlans)
            it->second.push_back(std::move(plan));
    }
    return it->second;
  }

  void tryStages(int64_t devices, int64_t count) {
    InParts *part = inParts(count);
    if (!part)
      return;
    for (const ModuleCandidate &plan : plansOf(*part, request.devices / devices, devices)) {
      StageCosts costs(**part->module, part->problem, plan, cluster);
      for (ScheduleKind kind : {ScheduleKind::f1b1, ScheduleKind::interleaved, ScheduleKind::zbH1, ScheduleKind::gpipe, ScheduleKind::naive}) {
        bool common = kind != ScheduleKind::gpipe && kind != ScheduleKind::naive; // these two only if they are asked for
        if (request.schedule.empty() ? common : pipeline::nameOf(kind) == request.schedule)
          simulate(*part, costs, plan, devices, count, kind);
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
    candidate.options = {count, schedule.stages(), schedule.chunks, pipeline::nameOf(kind).str(), {}};
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
    found.push_back(std::move(candidate));
  }

  ModuleOp module;
  const Cluster &cluster;
  const PipelineRequest &request;
  std::map<int64_t, InParts> parts; // by microbatches
  std::vector<PipelineCandidate> found;
};
} // namespace

FailureOr<std::vector<PipelineCandidate>> compiler::rankPipelines(ModuleOp module, const Cluster &cluster,
                                                                  const PipelineRequest &request) {
  return Search(module, cluster, request).run();
}
