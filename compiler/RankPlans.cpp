#include "compiler/RankPlans.h"

#include "compiler/Accumulation.h"
#include "compiler/PipelineCandidate.h"
#include "compiler/Profile/Expectation.h"
#include "dialects/Exec/Exec.h"
#include "dialects/Graph/WhenNeeded.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;
using namespace divisi::planning;

/// The number of plans that are compiled, and the largest number of operations of a program for that.
static constexpr size_t mostCompiled = 5, mostOperations = 6000;

RunSetting compiler::settingFor(int64_t ranks) { return {ranks, std::max<int64_t>(1, thisMachine().cores / ranks)}; }

/// For which not every candidate has shares of the batch: plans are ordered, and listed, without it.
static void removeNoiseScale(ModuleOp module) {
  auto train = module.lookupSymbol<func::FuncOp>("train");
  if (auto result = train ? graph::findReport(train, graph::gradSquareBig) : std::nullopt) {
    train.getBody().front().getTerminator()->eraseOperand(*result);
    (void)train.eraseResult(*result);
  }
}

LogicalResult compiler::toTasks(ModuleOp module, const ModuleCandidate &plan, const MicrobatchOptions &options,
                                llvm::function_ref<void(OpPassManager &)> addMore) {
  if (failed(applyStages(module, plan, options, {})))
    return failure();
  removeNoiseScale(module);
  return runPasses(module, [&](OpPassManager &pm) {
    if (plan.mesh.devices() > 1)
      addDistPipeline(pm, {}, options);
    else if (options.any())
      addTaskPipeline(pm, options);
    addMore(pm);
  });
}

/// Compiles a candidate to tasks; sets its arena and the expected time of a step. Returns the share of it that was
/// measured.
static FailureOr<double> compileTasks(ModuleOp module, const Cluster &cluster, const ProfileDatabase &database,
                                      MicrobatchOptions microbatches, ModuleCandidate &candidate) {
  candidate.planner->complete(candidate);
  if (candidate.split) {
    module = candidate.split->module.get();
    microbatches.microbatches = candidate.split->microbatches;
  }
  OwningOpRef<ModuleOp> copy = module.clone();
  if (failed(toTasks(*copy, candidate, microbatches, [](OpPassManager &pm) { addExecPipeline(pm, /*forGpu=*/false); })))
    return failure();
  candidate.arenaBytes = copy.get()->getAttrOfType<IntegerAttr>(exec::names::arena).getInt();
  const Cluster used = cluster.used(candidate.mesh.devices());
  candidate.fits = candidate.arenaBytes <= used.device.memory;
  Expectation expectation = expectStep(*copy, used, settingFor(candidate.mesh.devices()), database);
  if (expectation.measured >= leastMeasured)
    candidate.measured = expectation.step * 1e-6;
  return expectation.measured;
}

llvm::Expected<RankedPlans> compiler::rankPlans(ModuleOp module, const Cluster &cluster, const PlannerOptions &options,
                                                int64_t microbatches, const ProfileDatabase &database,
                                                const MicrobatchOptions &already) {
  auto found = planAccumulating(module, cluster, options, microbatches);
  if (!found)
    return found.takeError();
  RankedPlans result{std::move(*found), ""};
  std::vector<ModuleCandidate> &candidates = result.candidates;
  auto choose = [&] { // of sorted candidates
    if (preferFewerDevices(candidates))
      candidates[0].planner->complete(candidates[0]);
  };
  choose();
  if (cluster.device.kind != "cpu")
    return result;
  if (size_t operations = candidates[0].planner->problem.ops.size(); operations > mostOperations) {
    if (!database.empty())
      result.unmeasured = "plans of programs of more than " + std::to_string(mostOperations) +
                          " operations are not compiled to be compared, and this one has " + std::to_string(operations);
    return result;
  }
  size_t compiled = 0;
  double least = 1; // the share of a competing candidate that is measured, if one is not
  bool comparable = true;
  for (ModuleCandidate &candidate : candidates) {
    bool alone = candidate.mesh.devices() == 1;
    if (compiled >= mostCompiled && !alone)
      continue;
    auto share = compileTasks(module, cluster, database, already, candidate);
    if (failed(share))
      return told();
    compiled += !alone;
    comparable &= candidate.measured > 0;
    if (candidate.measured > 0 || *share >= least)
      continue;
    least = *share;
    if (!database.empty())
      result.unmeasured =
          whyUnmeasured(database, settingFor(candidate.mesh.devices()), "the plan '" + candidate.name + "'", *share);
  }
  if (!comparable) // not all have measured times: they cannot be compared
    for (ModuleCandidate &candidate : candidates)
      candidate.measured = 0;
  llvm::stable_sort(candidates, planning::isBetter);
  choose();
  return result;
}
