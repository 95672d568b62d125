// What Compilation leaves to searches: plans, pipelines, numbers of microbatches and cuts.
#include "compiler/Compilation.h"
#include "compiler/MicrobatchSearch.h"
#include "compiler/PlanFile.h"
#include "compiler/ProgramMeaning.h"
#include "compiler/RankPlans.h"
#include "passes/Planning/Passes.h"
#include "passes/Planning/Strategy.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;

/// Applies the best plan for the cluster, by measured times if there are any.
LogicalResult Compilation::searchPlan() {
  if (failed(session.run(addSimplify)))
    return failure();
  auto known = clusterOfSearch();
  if (failed(known))
    return failure();
  searched = *known;
  const planning::Cluster &cluster = *searched;
  if (request.devices.pipelines)
    return searchPipelines(cluster);
  auto database = ProfileDatabase::read(ProfileDatabase::defaultFile());
  if (!database)
    return fail(database.takeError());
  planning::PlannerOptions options;
  options.pins = llvm::cantFail(planning::parsePins(plan.pins));
  // Each of several programs uses all of its devices.
  options.alone = plan.mesh.empty() && (!executable.hasSeveral() || plan.devices <= 1);
  options.remat = plan.remat;
  options.wider = options.alone && plan.devices > 1;
  if (plan.mesh.empty() && plan.devices > 1)
    options.meshes = planning::enumerateMeshes(cluster, plan.devices);
  else if (!options.alone)
    options.searchOnly(llvm::cantFail(planning::parseMesh(plan.mesh)));
  if (cluster.device.kind == "cuda" && !request.cuda && request.isProgram)
    note("the plan is for the GPUs of --cluster, the program for CPUs: --target says so");
  if (cluster.device.kind != "cuda" && !request.cpu && request.isProgram)
    note("the program is for GPUs, the plan for CPUs: --cluster 4xh100 or a file says what GPUs there are");
  const bool mayAccumulate = request.devices.mayAccumulate && !hasBatchNorm && !microbatches.any();
  const bool free = options.alone && options.pins.empty() && mayAccumulate;
  OwningOpRef<ModuleOp> whole; // a copy for plan files of pipelines: ordering plans changes the module
  if (free)
    whole = model.module->clone();
  if (!microbatches.any()) // else these are sums over microbatches
    pipelining::unmarkGradients(*model.module);
  std::string hash = planning::hashOfModel(*model.module); // when a plan file is read
  auto ranked = rankPlans(*model.module, cluster, options, mayAccumulate ? 0 : 1, *database, microbatches);
  if (!ranked)
    return fail(ranked.takeError());
  noteUnmeasured("plans are not ordered by measured times", ranked->unmeasured);
  const std::vector<planning::ModuleCandidate> &candidates = ranked->candidates;
  if (free) {
    PipelineRequest others = pipelines;
    if (plan.remat)
      others.remat = *plan.remat > 0;
    if (auto piped = betterPipeline(*whole, cluster, others, candidates.front())) {
      model.module = std::move(whole);
      return applyPipeline(std::move(*piped));
    }
  }
  note(planning::describeChoice(candidates));
  const planning::ModuleCandidate &best = candidates.front();
  if (best.split) {
    model.module = best.split->module.get().clone();
    microbatches.microbatches = best.split->microbatches;
    hash = best.split->hash;
  }
  if (failed(planning::applyCandidate(*model.module, best, subjectOf(hash))))
    return failure();
  if (best.split)
    writePipeline(*model.module, microbatches, subjectOf(hash));
  return success();
}

/// Applies the best pipeline for the cluster.
LogicalResult Compilation::searchPipelines(const planning::Cluster &cluster) {
  auto ranked = rankPipelines(*model.module, cluster, pipelines);
  if (ranked.empty()) {
    std::string text = whyNoPipeline(*model.module, cluster, pipelines);
    llvm::StringRef why = text;
    if (!pipelines.microbatches && pipelines.schedule.empty() && beforeTrain && why.starts_with("no pipeline: node "))
      ranked = rankWhole(cluster);
    if (ranked.empty())
      return fail(why);
    why.consume_front("no pipeline: ");
    note(why + "; so it is here, and the stages run one after the other");
  }
  if (hasBatchNorm && ranked.front().options.whole())
    note("batch norm needs the whole batch, so stages wait for each other; --microbatches N overlaps them, with the "
         "statistics of each microbatch");
  return applyPipeline(std::move(ranked.front()));
}

FailureOr<planning::Cluster> Compilation::clusterOfSearch() {
  auto machine = request.machineFor(plan.cluster);
  if (!machine)
    return fail(machine.takeError());
  return llvm::cantFail(planning::parseCluster(plan.cluster, *machine)); // checked with the flags
}

/// Pipelines whose stages work on the whole batch: of a step whose gradients are marked.
std::vector<PipelineCandidate> Compilation::rankWhole(const planning::Cluster &cluster) {
  pipelines.microbatches = 1;
  trained.markGradients = true;
  model.module = std::move(beforeTrain);
  if (failed(session.run([&](OpPassManager &pm) {
        addTrainPipeline(pm, trained);
        addSimplify(pm);
      })))
    return {};
  return rankPipelines(*model.module, cluster, pipelines);
}

/// The number of microbatches of pipelines of a model with batch norm, whose step depends on it.
LogicalResult Compilation::chooseOfBatchNorm() {
  int64_t count = 0;
  if (request.devices.batchNormStats == "microbatch" && level < Level::train) {
    auto cluster = clusterOfSearch();
    if (failed(cluster))
      return failure();
    count = searchMicrobatches(*model.module, train, *cluster, pipelines);
  }
  pipelines.microbatches = std::max<int64_t>(1, count);
  microbatches.microbatches = std::max(microbatches.microbatches, count);
  return success();
}

/// Writes into the plan what a search adds to it.
void Compilation::noteSearch(const planning::Cluster &cluster) {
  for (auto written : model.module->getOps<dist::PlanOp>()) {
    written->setAttr(splitProjections, UnitAttr::get(&session.context));
    if (!cluster.calibration.empty())
      written->setAttr("calibration", StringAttr::get(&session.context, cluster.calibration));
  }
}

LogicalResult Compilation::applyPipeline(PipelineCandidate best) {
  best.plan.planner->complete(best.plan);
  std::string text;
  llvm::raw_string_ostream(text) << "the plan " << best.name()
                                 << llvm::format(": %.3g ms a step, %.3g GB a device; stages begin at ",
                                                 best.seconds * 1e3, best.memory * 1e-9)
                                 << llvm::join(best.options.cuts, ", ");
  note(text);
  microbatches = best.options;
  if (microbatches.asynchronous())
    note("an asynchronous pipeline does not compute the numbers of one device (docs/pipelines.md)");
  if (best.plan.mesh.devices() > 1) {
    model.module = std::move(*best.module);
    if (failed(applyStages(*model.module, best.plan, microbatches, subjectOf(best.hash))))
      return failure();
  } else if (failed(session.run([&](OpPassManager &pm) { addMicrobatchPipeline(pm, microbatches); }))) {
    return failure(); // nothing is sharded, as if the plan had been given
  }
  noteSchedule(*model.module, microbatches);
  writePipeline(*model.module, best.options, subjectOf(best.hash));
  return success();
}

/// Chooses the number of microbatches for --microbatches auto and the stages of a mesh.
LogicalResult Compilation::chooseMicrobatches() {
  auto mesh = llvm::expectedToOptional(planning::parseMesh(plan.mesh)); // null: each stage is one device
  auto data = mesh ? mesh->find("data") : std::nullopt;
  int64_t batch = batchOf(*model.module), devices = microbatches.stages / microbatches.chunks;
  int64_t count = microbatchesNear(batch, usualMicrobatchesPerStage * (double)devices,
                                   data ? mesh->axes[*data].size : 1, microbatches.chunks > 1 ? devices : 1);
  if (count < 2)
    return fail("--microbatches auto: the batch of " + llvm::Twine(batch) + " does not divide into as many as " +
                llvm::Twine(devices) + " stages need");
  note(llvm::Twine(count) + " microbatches");
  microbatches.microbatches = count;
  return success();
}

/// Adds the first nodes of the stages to the flags, by nominal costs.
LogicalResult Compilation::chooseCuts() {
  auto train = model.module->lookupSymbol<func::FuncOp>("train");
  auto parts = pipelining::StepParts::of(train);
  if (failed(parts))
    return failure();
  auto weights = pipelining::StageWeights::nominal();
  if (!microbatches.axes.empty())
    weights = weights.sharedBy(microbatches.axes, llvm::cantFail(planning::parseMesh(meshOfStage)), microbatches.stages);
  weights.devices.insert(weights.devices.end(), microbatches.replicas.begin(), microbatches.replicas.end());
  auto placement = placeStages(train, *parts, microbatches.stages, microbatches.cuts, weights);
  if (failed(placement))
    return failure();
  microbatches.cuts = placement->cuts;
  return success();
}
