#include "compiler/PipelineCandidate.h"

#include "passes/Planning/NarrowPlan.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;
using namespace divisi::planning;

/// The number of minibatches for each stage of an asynchronous pipeline that are simulated, to measure the time of a
/// minibatch when the pipeline is full.
static constexpr int steadyMinibatches = 8;

std::string PipelineCandidate::name() const {
  if (options.stages == 1) // gradient accumulation
    return (plan.mesh.devices() > 1 ? planning::nameOf(plan.mesh) : "one device") +
           " microbatches=" + std::to_string(options.microbatches);
  std::string mesh = "stage=" + std::to_string(options.stages / options.chunks);
  if (plan.mesh.devices() > 1)
    mesh += "," + planning::nameOf(plan.mesh);
  if (!options.axes.empty())
    mesh += " stage-axes=" + options.axes.text();
  if (!options.replicas.empty())
    mesh += " round-robin=" + options.replicasText();
  return mesh + " " + options.schedule +
         (options.unsplit() ? " " + options.staleness : " microbatches=" + std::to_string(options.microbatches)) +
         (options.remat ? " remat" : "") +
         (options.remat % options.allParts ? "=" + std::to_string(options.remat) : "");
}

LogicalResult compiler::applyStages(ModuleOp module, const ModuleCandidate &plan, const MicrobatchOptions &options,
                                    const PlanSubject &subject) {
  module.walk([](Operation *op) { op->removeAttr(dist::names::stage); });
  if (!options.axes.empty() &&
      failed(pipelining::assignNarrowStages(module, options.stages, options.cuts, pipelining::StageWeights::nominal(), options.axes)))
    return failure();
  return applyCandidate(module, plan, subject);
}

FailureOr<StepInParts> StepInParts::make(ModuleOp module, const MicrobatchOptions &options, const Cluster &cluster) {
  StepInParts step;
  step.module = std::make_shared<OwningOpRef<ModuleOp>>(module.clone());
  if (failed(runPasses(**step.module, [&](OpPassManager &pm) { addMicrobatchPipeline(pm, options); })))
    return failure();
  step.hash = hashOfModel(**step.module);
  separateScalars(**step.module);
  if (failed(step.analyse(cluster)))
    return failure();
  return step;
}

LogicalResult StepInParts::analyse(const Cluster &cluster) {
  auto built = ModuleProblem::build(**module);
  auto found = pipelining::StepParts::of(train());
  if (failed(built) || failed(found))
    return failure();
  problem = std::move(*built);
  parts = std::make_shared<const pipelining::StepParts>(std::move(*found));
  planner = std::make_shared<Planner>(problem.problem, cluster);
  return success();
}

func::FuncOp StepInParts::train() const { return (*module)->lookupSymbol<func::FuncOp>("train"); }

std::unique_ptr<StepInParts::Priced> StepInParts::price(const Cluster &cluster, const dist::Mesh &mesh,
                                                        const Plan &plan, const std::string &name) const {
  Expansion expansion = expand(problem.problem, mesh, plan);
  auto priced = std::make_unique<Priced>();
  priced->plan = {planner->price(cluster, mesh, plan, name, expansion), {}, planner};
  priced->costs = std::make_unique<pipelining::StageCosts>(train(), *parts, problem, priced->plan, planner->items(),
                                                           std::move(expansion), cluster);
  return priced;
}

FailureOr<PipelineCandidate> StepInParts::simulate(const Priced &priced, const MicrobatchOptions &options,
                                                   const Cluster &cluster) const {
  auto placement = placeStages(train(), *parts, options.stages, options.cuts, priced.costs->weights());
  if (failed(placement))
    return failure();
  return simulate(priced, options, cluster, *placement);
}

std::unique_ptr<StepInParts::Priced> StepInParts::priceAlone(const Cluster &cluster) const {
  return price(cluster, {}, unsplit(problem.problem), "one device");
}

FailureOr<PipelineCandidate> StepInParts::simulateNarrow(const dist::Mesh &mesh, const Plan &plan,
                                                         const std::string &name, const Priced &alone,
                                                         const MicrobatchOptions &options,
                                                         const Cluster &cluster) const {
  auto weights = alone.costs->weights().sharedBy(options.axes, mesh, options.stages);
  auto placement = placeStages(train(), *parts, options.stages, options.cuts, weights);
  if (failed(placement))
    return failure();
  StageNumbers numbers{std::vector<int>(problem.problem.ops.size(), -1),
                       std::vector<int>(problem.problem.tensors.size(), -1)};
  for (auto [op, stage] : placement->operations)
    if (auto it = problem.opOf.find(op); it != problem.opOf.end())
      numbers.ops[it->second] = stage;
  for (BlockArgument argument : train().getArguments())
    if (pipelining::isOwned(argument))
      numbers.tensors[problem.tensorOf.lookup(argument)] = placement->of(argument);
  Plan narrowed = narrow(problem.problem, mesh, options.axes, numbers, plan);
  Expansion expansion = expand(problem.problem, mesh, narrowed);
  Priced priced;
  priced.plan = {planner->price(cluster, mesh, narrowed, name, expansion), {}, planner};
  priced.costs = std::make_unique<pipelining::StageCosts>(train(), *parts, problem, priced.plan, planner->items(),
                                                          std::move(expansion), cluster, options.axes);
  auto candidate = simulate(priced, options, cluster, *placement);
  if (succeeded(candidate))
    candidate->plan.plan = plan; // narrowed where it is applied
  return candidate;
}

FailureOr<PipelineCandidate> StepInParts::simulate(const Priced &priced, const MicrobatchOptions &options,
                                                   const Cluster &cluster,
                                                   const pipelining::StagePlacement &placement) const {
  const auto &[plan, costs] = priced;
  pipeline::ScheduleOptions schedule;
  schedule.kind = *pipeline::parseScheduleKind(options.schedule);
  schedule.devices = options.stages / options.chunks;
  schedule.batch = options.doubleBuffered() ? options.microbatches : 1;
  schedule.microbatches =
      (options.asynchronous() ? steadyMinibatches * schedule.devices : 1) * (options.unsplit() ? 1 : options.microbatches);
  schedule.chunks = options.chunks;
  schedule.staleness = *pipeline::parseStaleness(options.staleness);
  schedule.replicas = options.replicas;
  if (std::string wrong = schedule.invalid(); !wrong.empty())
    return module->get().emitError(wrong);
  auto stages = costs->of(placement, options.stages, options.remat, options.asynchronous());
  for (auto [cost, replicas] : llvm::zip(stages.costs, options.replicas)) {
    // Replicas that take microbatches in turn are, by and large, one device that is as many times as fast.
    for (double *share : {&cost.forward, &cost.inputGradient, &cost.weightGradient, &cost.activationBytes})
      *share /= replicas;
  }
  auto run = pipeline::simulate(schedule, stages.edges, stages.costs, costs->network());
  if (!run)
    return module->get().emitError(llvm::toString(run.takeError()));
  PipelineCandidate candidate;
  candidate.options = options;
  candidate.options.cuts = placement.cuts;
  candidate.seconds = options.stages == 1      ? plan.prediction.seconds // with what overlaps inside of a microbatch
                      : options.asynchronous() ? run->steadySeconds
                                               : run->seconds;
  for (const auto &device : run->devices)
    candidate.memory = std::max(candidate.memory, device.peakBytes);
  if (options.stages == 1)
    candidate.memory = plan.prediction.memory.total(); // as the search counts it
  candidate.fits = candidate.memory <= cluster.device.memory;
  candidate.run = std::move(*run);
  candidate.plan = plan;
  candidate.module = module;
  candidate.hash = hash;
  return candidate;
}
