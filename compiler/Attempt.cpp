#include "compiler/Attempt.h"

#include "compiler/CheckProgram.h"
#include "compiler/Manifest.h"
#include "compiler/PlanFile.h"
#include "compiler/Report/SyncReport.h"
#include "compiler/RankPlans.h"
#include "passes/Planning/ApplyPadding.h"
#include "passes/Planning/FollowPlan.h"

#include "llvm/Support/Path.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;
using namespace divisi::planning;

llvm::Error Attempt::plan(const Cluster &cluster, const PlannerOptions &options, int64_t microbatches) {
  if (failed(session.read(request)))
    return told();
  ModuleOp module = *session.model.module;
  hasBatchNorm = graph::hasBatchNorm(module);
  if (levelOf(module) == Level::exec)
    return priceProgram(cluster);
  TrainOptions train = request.train;
  MicrobatchOptions parts;
  parts.microbatches = std::max<int64_t>(1, microbatches);
  follow(parts, train);
  train.splitProjections = !options.meshes.empty();
  train.forGpu = cluster.device.kind == "cuda";
  train.markGradients |= asynchronous;
  auto database = ProfileDatabase::read(ProfileDatabase::defaultFile());
  if (!database)
    return database.takeError();
  if (llvm::Error error = toTrain(train))
    return error;
  if (asynchronous) {
    marked = module.clone();
    pipelining::unmarkGradients(module);
  }
  if (hasBatchNorm && microbatches == 0)
    microbatches = 1; // its numbers depend on them
  auto ranked = rankPlans(module, cluster, options, microbatches, *database);
  if (!ranked)
    return ranked.takeError();
  candidates = std::move(ranked->candidates);
  unmeasured = std::move(ranked->unmeasured);
  return llvm::Error::success();
}

llvm::Error Attempt::priceProgram(const Cluster &cluster) {
  ModuleOp module = *session.model.module;
  if (failed(checkNames(module)) || failed(checkProgram(module)))
    return told();
  auto sync = dist::Sync::of(module);
  if (failed(sync))
    return told();
  const int64_t ranks = ranksOf(module, *sync);
  if (ranks > cluster.devices())
    return llvm::createStringError("'" + request.input + "' is for " + std::to_string(ranks) +
                                   " devices, the cluster has " + std::to_string(cluster.devices()));
  program = expectStep(module, cluster.used(ranks), settingFor(ranks), ProfileDatabase());
  if (program->calls.empty())
    return llvm::createStringError("'" + request.input + "' has no training step: nothing runs in it");
  if (!program->ends)
    return llvm::createStringError("'" + request.input + "': a stage waits for a message that nobody sends before it");
  return llvm::Error::success();
}

llvm::Error Attempt::price(const Cluster &cluster, const std::string &path) {
  OwningOpRef<ModuleOp> file;
  dist::PlanOp text = parsePlan(file, path, &session.context);
  TrainOptions train = request.train;
  FailureOr<MicrobatchOptions> options = failure();
  if (text)
    options = follow(text, train);
  if (failed(options))
    return told();
  auto sync = readSync(text);
  if (failed(sync))
    return told();
  hasOtherSync = sync->mode != dist::Sync::Mode::allReduce;
  if (hasOtherSync && options->any())
    llvm::errs() << "note: with microbatches or stages a plan is priced as if its 'sync' were all-reduce\n";
  int64_t devices = options->devices(dist::toMesh(text.getMesh()));
  if (devices > cluster.devices())
    return llvm::createStringError("the plan is for " + std::to_string(devices) + " devices, the cluster has " +
                                   std::to_string(cluster.devices()));
  if (text.getTarget() != cluster.device.kind) {
    const std::string &kind = cluster.device.kind;
    return llvm::createStringError(path + " was made for the target " + text.getTarget().str() +
                                   ", the devices of --cluster are of the kind " + kind +
                                   ": make it with divisi compile --target " + kind + " --emit plan");
  }
  train.forGpu = cluster.device.kind == "cuda";
  const Cluster used = cluster.used(devices);
  auto met = meet(train, *options, used);
  if (!met)
    return met.takeError();
  const PlanSubject subject{met->hash, cluster.device.kind};
  std::string name = llvm::sys::path::filename(path).str();
  if (!met->step) {
    auto followed = followPlan(*session.model.module, text, subject);
    if (failed(followed))
      return told();
    auto planner = std::make_shared<const Planner>(followed->problem.problem, cluster);
    candidates = {{planner->price(cluster, followed->mesh, followed->plan, name), followed->preparation, planner}};
    applySync(*sync, candidates.front(), planner->problem, used);
    return llvm::Error::success();
  }
  StepInParts &step = *met->step;
  auto followed = followPlan(**step.module, text, subject);
  if (failed(followed))
    return told();
  if (!followed->preparation.pads.empty())
    return llvm::createStringError("a plan for microbatches that pads sizes cannot be priced");
  if (!followed->preparation.remats.empty() && failed(step.analyse(used)))
    return told();
  auto pipeline =
      options->axes.empty()
          ? step.simulate(*step.price(used, followed->mesh, followed->plan, name), *options, used)
          : step.simulateNarrow(followed->mesh, followed->plan, name, *step.priceAlone(used), *options, used);
  if (failed(pipeline))
    return told();
  pipelines.push_back(std::move(*pipeline));
  return llvm::Error::success();
}

llvm::Error Attempt::price(const Cluster &cluster, const dist::Mesh &mesh, int zero,
                           MicrobatchOptions options) {
  if (options.any())
    return priceInParts(cluster, mesh, zero, std::move(options));
  if (failed(session.read(request)))
    return told();
  ModuleOp module = *session.model.module;
  TrainOptions train = request.train;
  train.splitProjections = mesh.find("model").has_value();
  train.forGpu = cluster.device.kind == "cuda";
  if (llvm::Error error = toTrain(train))
    return error;
  separateScalars(module);
  StrategyOptions strategyOptions;
  strategyOptions.zero = zero;
  auto prepared = prepareStrategy(module, mesh, strategyOptions, cluster.device.kind);
  if (!prepared)
    return prepared.takeError();
  auto problem = ModuleProblem::build(module);
  if (failed(problem))
    return told();
  auto strategy = planByStrategy(problem->problem, prepared->mesh, strategyOptions);
  if (!strategy)
    return strategy.takeError();
  auto planner = std::make_shared<const Planner>(std::move(problem->problem), cluster);
  std::string name = planning::nameOf(prepared->mesh) + (zero ? " zero=" + std::to_string(zero) : "");
  candidates = {
      {planner->price(cluster, prepared->mesh, std::move(*strategy->plan), name), {{}, prepared->pads}, planner}};
  return llvm::Error::success();
}

llvm::Error Attempt::priceInParts(const Cluster &cluster, const dist::Mesh &mesh, int zero,
                                  MicrobatchOptions options) {
  if (failed(session.read(request)))
    return told();
  TrainOptions train = request.train;
  train.splitProjections = mesh.find("model").has_value();
  train.forGpu = cluster.device.kind == "cuda";
  ModuleOp module = *session.model.module;
  if (options.microbatches == 0)
    options.microbatches =
        options.unsplit() ? 1 : microbatchesNear(batchOf(module), usualMicrobatchesPerStage * options.stages);
  follow(options, train);
  if (llvm::Error error = toTrain(train))
    return error;
  const Cluster used = cluster.used(options.devices(mesh));
  auto step = StepInParts::make(module, options, used);
  if (failed(step))
    return told();
  StrategyOptions strategyOptions;
  strategyOptions.zero = zero;
  auto strategy = planByStrategy(step->problem.problem, mesh, strategyOptions);
  if (!strategy)
    return strategy.takeError();
  if (!strategy->plan)
    return llvm::createStringError("the mesh " + planning::nameOf(mesh) +
                                   " of a stage does not divide all sizes, and pipelines that pad "
                                   "sizes cannot be priced: choose another mesh");
  auto priced = step->price(used, mesh, *strategy->plan, planning::nameOf(mesh) + (zero ? " zero=" + std::to_string(zero) : ""));
  auto pipeline = step->simulate(*priced, options, used);
  if (failed(pipeline))
    return told();
  pipelines.push_back(std::move(*pipeline));
  return llvm::Error::success();
}

llvm::Expected<Attempt::Met> Attempt::meet(const TrainOptions &train, const MicrobatchOptions &options,
                         const Cluster &cluster) {
  if (failed(session.read(request)))
    return told();
  if (llvm::Error error = toTrain(train))
    return error;
  ModuleOp module = *session.model.module;
  if (!options.any())
    return Met{hashOfModel(module), std::nullopt};
  auto step = StepInParts::make(module, options, cluster);
  if (failed(step))
    return told();
  return Met{step->hash, std::move(*step)};
}

llvm::Error Attempt::toTrain(TrainOptions train) {
  Level level = levelOf(*session.model.module);
  if (level == Level::graph && failed(followTrainingInfo(*session.model.module, request.import, train)))
    return told();
  if (level >= Level::planned)
    return llvm::createStringError("'" + request.input + "' is planned already");
  if (!train.markGradients)
    pipelining::unmarkGradients(*session.model.module); // of a dump
  LogicalResult done = session.run([&](OpPassManager &pm) {
    if (level < Level::train)
      addTrainPipeline(pm, train);
    addSimplify(pm);
  });
  if (failed(done))
    return told();
  auto counted = StepWork::of(*session.model.module);
  if (failed(counted))
    return told();
  work = *counted;
  return llvm::Error::success();
}
