#include "compiler/PlannedCalls.h"

#include "compiler/Profile/Expectation.h"
#include "compiler/RankPlans.h"
#include "dialects/Dist/Dist.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;
using namespace divisi::planning;

/// A collective between the devices of a stage, as a program's are priced.
static void price(StepCall &call, Operation *op, const Cluster &cluster, const dist::Mesh &mesh) {
  const codegen::ProgramCall collective = codegen::callOf(op, op->getOperands(), mesh);
  call.kind = collective.kind;
  call.bytes = collective.work.bytes;
  call.seconds = secondsOf(collective, cluster, mesh);
}

/// `module`, which is not changed, has the nodes of the plan: it is at the level train, in the microbatches of `options`, which
/// have the names of the cuts.
static llvm::Expected<std::vector<StepCall>> callsOf(ModuleOp module, const ModuleCandidate &plan,
                                                     const MicrobatchOptions &options, const Cluster &cluster) {
  OwningOpRef<ModuleOp> copy = module.clone();
  const bool forGpu = cluster.device.kind == "cuda";
  if (failed(toTasks(*copy, plan, options, [&](OpPassManager &pm) { addLoops(pm, forGpu); })))
    return told();
  const Cluster used = cluster.used(options.devices(plan.mesh));
  const llvm::StringMap<int64_t> runs = runsOfTasks(*copy);
  std::vector<StepCall> calls;
  for (auto task : copy->getOps<func::FuncOp>()) {
    auto times = runs.find(task.getName());
    if (times == runs.end())
      continue;
    dist::Mesh mesh; // of the devices that collectives span
    if (auto attr = task->getAttrOfType<dist::MeshAttr>(dist::names::partitioned))
      mesh = dist::toMesh(attr);
    auto found = ModuleProblem::ofTask(task, times->second);
    if (failed(found))
      return told();
    for (StepCall &call : planning::callsOf(found->problem, CostModel(used, {}))) {
      if (call.operation >= 0 && found->problem.ops[call.operation].collective)
        price(call, found->ops[call.operation], used, mesh);
      if (call.kind != dist::ReceiveOp::getOperationName())
        calls.push_back(std::move(call));
    }
  }
  return calls;
}

llvm::Expected<std::vector<StepCall>> compiler::plannedCalls(const Attempt &found, const Cluster &cluster, bool isFile) {
  if (found.hasOtherSync)
    llvm::errs() << "note: --calls lists the plan as if its 'sync' were all-reduce\n";
  if (found.candidates.empty()) {
    const PipelineCandidate &pipeline = found.pipelines[0];
    return callsOf(**pipeline.module, pipeline.plan, pipeline.options, cluster);
  }
  ModuleCandidate plan = found.candidates[0];
  if (isFile)
    plan.preparation = {};
  MicrobatchOptions options;
  if (!plan.split)
    return callsOf(*found.session.model.module, plan, options, cluster);
  options.microbatches = plan.split->microbatches;
  return callsOf(*plan.split->module, plan, options, cluster);
}
