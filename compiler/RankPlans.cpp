#include "compiler/RankPlans.h"

#include "compiler/Accumulation.h"
#include "compiler/Pipeline.h"
#include "compiler/Profile/Expectation.h"
#include "dialects/Exec/Exec.h"
#include "dialects/Graph/WhenNeeded.h"

#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;
using namespace divisi::planning;

/// The number of plans that are compiled, and the largest number of operations of a program for that.
static constexpr size_t mostCompiled = 5, mostOperations = 6000;

/// The share of a step's time that must be measured for its sum to count as measured.
static constexpr double leastMeasured = 0.5;

RunSetting compiler::settingFor(int64_t ranks) { return {ranks, std::max<int64_t>(1, thisMachine().cores / ranks)}; }

/// Removes the noise scale, for which not every candidate has shares of the batch: plans are ordered without it.
static void removeNoiseScale(ModuleOp module) {
  auto train = module.lookupSymbol<func::FuncOp>("train");
  if (auto result = train ? graph::findReport(train, graph::gradSquareBig) : std::nullopt) {
    train.getBody().front().getTerminator()->eraseOperand(*result);
    (void)train.eraseResult(*result);
  }
}

/// Compiles a candidate to tasks; sets its arena and the expected time of a step.
static LogicalResult compileTasks(ModuleOp module, const Cluster &cluster, const ProfileDatabase &database,
                                  ModuleCandidate &candidate) {
  candidate.planner->complete(candidate);
  MicrobatchOptions microbatches;
  if (candidate.split) {
    module = candidate.split->module.get();
    microbatches.microbatches = candidate.split->microbatches;
  }
  OwningOpRef<ModuleOp> copy = module.clone();
  if (failed(applyCandidate(*copy, candidate, {})))
    return failure();
  removeNoiseScale(*copy);
  PassManager manager(module.getContext());
  if (candidate.mesh.devices() > 1)
    addDistPipeline(manager, {}, microbatches);
  else if (microbatches.any())
    addTaskPipeline(manager, microbatches);
  addExecPipeline(manager, /*forGpu=*/false);
  if (failed(manager.run(*copy)))
    return failure();
  candidate.arenaBytes = copy.get()->getAttrOfType<IntegerAttr>(exec::names::arena).getInt();
  const Cluster used = cluster.used(candidate.mesh.devices());
  candidate.fits = candidate.arenaBytes <= used.device.memory;
  Expectation expectation = expectStep(*copy, used, settingFor(candidate.mesh.devices()), database);
  if (expectation.measured > leastMeasured)
    candidate.measured = expectation.step * 1e-6;
  return success();
}

llvm::Expected<std::vector<ModuleCandidate>> compiler::rankPlans(ModuleOp module, const Cluster &cluster,
                                                                 const PlannerOptions &options, int64_t microbatches,
                                                                 const ProfileDatabase &database) {
  auto candidates = planAccumulating(module, cluster, options, microbatches);
  if (!candidates || cluster.device.kind != "cpu" ||
      (*candidates)[0].planner->problem.ops.size() > mostOperations)
    return candidates;
  size_t compiled = 0;
  bool comparable = true; // whether all competing candidates have measured times
  for (ModuleCandidate &candidate : *candidates) {
    bool alone = candidate.mesh.devices() == 1;
    if (compiled >= mostCompiled && !alone)
      continue;
    if (failed(compileTasks(module, cluster, database, candidate)))
      return told();
    compiled += !alone;
    comparable &= candidate.measured > 0;
  }
  if (!comparable)
    for (ModuleCandidate &candidate : *candidates)
      candidate.measured = 0;
  llvm::stable_sort(*candidates, isBetter);
  return candidates;
}
