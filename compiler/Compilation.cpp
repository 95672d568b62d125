#include "compiler/Compilation.h"

#include "codegen/Emit/Program.h"
#include "compiler/CheckProgram.h"
#include "compiler/PlanFile.h"
#include "compiler/ProgramMeaning.h"
#include "compiler/RankPlans.h"
#include "passes/Pipelining/StepParts.h"
#include "passes/Planning/FollowPlan.h"
#include "passes/Planning/ModulePlanner.h"
#include "passes/Planning/Passes.h"
#include "passes/Planning/Remat/Rematerialize.h"
#include "passes/Planning/Strategy.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;

LogicalResult Compilation::fail(const llvm::Twine &message) {
  return emitError(UnknownLoc::get(&session.context), message);
}

LogicalResult Compilation::fail(llvm::Error error) {
  std::string text = llvm::toString(std::move(error));
  return text.empty() ? failure() : fail(text);
}

void Compilation::note(const llvm::Twine &message) { emitRemark(UnknownLoc::get(&session.context), message); }

LogicalResult Compilation::run() {
  if (failed(read()))
    return failure();
  if (microbatches.microbatches == 0 && failed(chooseMicrobatches()))
    return failure();
  train = request.model.train;
  RunDefaults ofFile;
  if (level == Level::graph && request.target > Level::graph) {
    auto rate = followTrainingInfo(*model.module, request.model.import, train);
    if (failed(rate))
      return failure();
    ofFile.lr = *rate;
  }
  train.forGpu = request.cuda;
  plan.target = train.forGpu ? "cuda" : "cpu";
  hasBatchNorm = graph::hasBatchNorm(*model.module);
  // Without --microbatches, stages of a model with batch norm work on the whole batch: its statistics are exact.
  if (request.devices.pipelines && hasBatchNorm && !pipelines.microbatches && failed(chooseOfBatchNorm()))
    return failure();
  if (failed(applyMesh()) || failed(toTrain()))
    return failure();
  if (level >= Level::train) {
    noteDefaults(*model.module, ofFile);
    noteDefaults(*model.module, request.defaults);
  }
  if (level >= Level::train && level <= Level::exec) // also of a dump whose 'dist.sync' was edited
    noteSync(*model.module, sync);
  if (failed(toPlanned()) || failed(toExec()))
    return failure();
  return level < Level::llvm && request.target == Level::llvm ? lower() : success();
}

/// Reads the model, or a dump, whose contents are checked.
LogicalResult Compilation::read() {
  if (failed(session.read(request.model)) || failed(checkNames(*model.module)))
    return failure();
  level = levelOf(*model.module);
  for (auto function : model.module->getOps<func::FuncOp>())
    if (level <= Level::planned && function.getName().contains('.'))
      return function.emitError("'") << function.getName() << "' is the name of a task, and there is no schedule of tasks: "
                                                              "a planned step is called 'train', its evaluation 'evaluate'";
  if (level >= Level::planned && request.asksForPlan)
    return fail("'" + request.model.input +
                "' is planned already: leave out --devices, --mesh, --strategy, --pin, --zero, --remat, --plan and "
                "--microbatches");
  const RunDefaults &defaults = request.defaults;
  if (level == Level::llvm && (defaults.lr || defaults.schedule || defaults.warmupSteps))
    return fail("'" + request.model.input + "' is a whole program already: give its learning rate to the program, and leave out --lr, "
                "--lr-schedule and --warmup-steps");
  if (level >= Level::train && level <= Level::exec)
    checkSeal(*model.module);
  if (level >= Level::planned && level <= Level::exec) {
    auto written = syncOfPlanned(*model.module);
    if (failed(written))
      return failure();
    sync = *written;
  }
  isSplit = isInMicrobatches(*model.module);
  if (isSplit && failed(readSplit(*model.module, sync, microbatches)))
    return failure();
  // Places: passes that create this level check their input.
  return success(level != Level::exec || succeeded(checkProgram(*model.module)));
}

/// Sets the options of the training step that depend on the mesh of the flags or of the plan file.
LogicalResult Compilation::applyMesh() {
  std::optional<dist::Mesh> mesh;
  train.splitProjections = !plan.cluster.empty();
  follow(microbatches, train);
  train.markGradients |= (request.devices.pipelines && pipelines.microbatches == 1) || pipelines.asynchronous;
  train.markGradients |= request.target == Level::train; // a dump is compiled for any mesh
  if (!plan.mesh.empty())
    mesh = llvm::cantFail(planning::parseMesh(plan.mesh)); // checked with the flags, here and below
  if (!plan.file.empty()) {
    OwningOpRef<ModuleOp> file;
    dist::PlanOp text = planning::parsePlan(file, plan.file, &session.context);
    auto read = text ? follow(text, train) : FailureOr<MicrobatchOptions>(failure());
    if (failed(read))
      return failure();
    microbatches = *read;
    mesh = dist::toMesh(text.getMesh());
    auto synchronisation = readSync(text);
    if (failed(synchronisation))
      return failure();
    if (request.syncOfDump && *request.syncOfDump != *synchronisation)
      return text.emitError("'sync' is another way to keep replicas in step than 'dist.sync' of '")
             << request.model.input << "'";
    sync = *synchronisation;
  }
  if (!mesh)
    return success();
  meshOfStage = planning::nameOf(*mesh);
  train.splitProjections |= mesh->find("model").has_value();
  auto data = mesh->find("data");
  if (data && (request.devices.batchNormStats == "local" || sync.isApart()))
    train.batchNormGroups *= mesh->axes[*data].size;
  if (microbatches.stages > 1)
    mesh->axes.insert(mesh->axes.begin(), {dist::stageAxis.str(), microbatches.stages / microbatches.chunks});
  return noteReplicas(*model.module, sync, *mesh);
}

LogicalResult Compilation::toTrain() {
  if (level >= Level::train)
    return success();
  if (hasBatchNorm && train.batchNormGroups > 1)
    note("batch norm uses the statistics of each of " + llvm::Twine(train.batchNormGroups) + " parts of the batch");
  if (request.target < Level::train)
    return success();
  noteProgram(*model.module, train, microbatches);
  if (request.devices.pipelines) {
    beforeTrain = model.module->clone();
    trained = train;
  }
  level = Level::train;
  return session.run([&](OpPassManager &pm) { addTrainPipeline(pm, train); });
}

/// Splits the step into microbatches and plans it, where something of it is asked for.
LogicalResult Compilation::toPlanned() {
  if (level < Level::planned && request.target >= Level::planned) {
    if (!microbatches.any() && !request.devices.pipelines) {
      pipelining::unmarkGradients(*model.module); // of a dump
    } else if (!isSplit && !request.devices.pipelines) {
      if (failed(session.run([&](OpPassManager &pm) { addMicrobatchPipeline(pm, microbatches); })))
        return failure();
      plan.model = planning::hashOfModel(*model.module);
    }
    if (plan.many()) {
      if (!microbatches.axes.empty() && failed(chooseCuts()))
        return failure();
      auto given = [&](OpPassManager &pm) {
        addNarrowStages(pm, meshOfStage, microbatches);
        addPlanPipeline(pm, plan);
      };
      if (plan.cluster.empty() ? failed(session.run(given)) : failed(searchPlan()))
        return failure();
      level = levelOf(*model.module); // a search may choose one device
    } else if (plan.remat.value_or(0) > 0) {
      if (failed(session.run(addSimplify)))
        return failure();
      planning::separateScalars(*model.module); // as a plan does: the segments are those that it prices
      planning::rematerializeBest(*model.module, *plan.remat);
    }
  }
  if (!plan.model.empty()) { // before shapes are local, so that a plan file names the cuts of the program
    if (failed(chooseCuts()))
      return failure();
    if (request.writesPlan)
      writePipeline(*model.module, microbatches, subjectOf(plan.model));
  }
  if (searched)
    noteSearch(*searched);
  writeSync(*model.module, sync);
  if (level >= Level::planned) // functions have it
    (*model.module)->removeDiscardableAttr(dist::names::syncMesh);
  return level == Level::planned ? LogicalResult(syncOfPlanned(*model.module)) : success();
}

/// Partitions the step and splits it into tasks; then forms kernels and assigns buffers.
LogicalResult Compilation::toExec() {
  if (level < Level::dist && request.target >= Level::dist) {
    const bool planned = level == Level::planned;
    if (planned || microbatches.any()) {
      if (failed(session.run([&](OpPassManager &pm) {
            if (planned)
              addDistPipeline(pm, plan, microbatches);
            else
              addTaskPipeline(pm, microbatches);
          })))
        return failure();
      level = Level::dist;
    }
  }
  if (level < Level::exec && request.target >= Level::exec) {
    if (failed(session.run([&](OpPassManager &pm) { addExecPipeline(pm, train.forGpu, request.epilogues); })))
      return failure();
    level = Level::exec;
  }
  return success();
}

LogicalResult Compilation::lower() {
  WeightsReference weights;
  TrainingState training;
  if (model.training)
    training = TrainingState(*model.module, *model.training, model.weights);
  if (!model.weights.empty() && request.isProgram) {
    std::vector<Weight> values = model.weights;
    llvm::append_range(values, training.weights());
    auto written = executable.weights(values);
    if (!written)
      return fail(written.takeError());
    weights = *written;
  }
  for (auto task : model.module->getOps<func::FuncOp>())
    manyRanks |= task->hasAttr(dist::names::partitioned);
  if (llvm::Error wrong = executable.check(*model.module, ranksOf(*model.module, sync)))
    return fail(std::move(wrong));
  auto expectation = expect();
  auto defaults = defaultsOf(*model.module);
  if (failed(expectation) || failed(defaults))
    return failure();
  if (!expectation->ends)
    return fail("the stages of this pipeline would wait for each other for ever: a fault of the compiler, if nobody has "
         "edited its dump; another --schedule or other cuts may do");
  codegen::ProgramData data{writeManifest(*model.module, request.name, *defaults, weights, &*expectation, training),
                            model.skeleton + (model.training ? model.training->info : ""), executable.next()};
  codegen::Targets targets{request.cpu, {}};
  if (request.cuda)
    targets.cuda = request.architectures;
  return codegen::lowerToLlvm(*model.module, data, targets);
}

/// The expected time of a step on this machine, as far as profiles have measurements, or on the GPUs that it was compiled for.
FailureOr<Expectation> Compilation::expect() {
  auto database = ProfileDatabase::read(ProfileDatabase::defaultFile());
  if (!database)
    return fail(database.takeError());
  RunSetting setting = settingFor(ranksOf(*model.module, sync));
  auto machine = request.machine();
  if (!machine)
    return fail(machine.takeError());
  const int64_t ranks = ranksOf(*model.module, sync);
  std::optional<planning::Cluster> given;
  if (!plan.cluster.empty())
    given = llvm::cantFail(planning::parseCluster(plan.cluster, *machine));
  planning::Cluster cluster = planning::nominalCluster("cuda", ranks);
  if (request.cpu)
    cluster = llvm::cantFail(planning::parseCluster("cpu:" + std::to_string(ranks), *machine));
  else if (given && given->device.kind == "cuda" && given->devices() >= ranks)
    cluster = given->used(ranks);
  Expectation expectation = expectStep(*model.module, cluster, setting, *database);
  if (!database->empty() && expectation.measured < leastMeasured && request.cpu)
    noteUnmeasured("the program's expected times rest on formulas",
                   whyUnmeasured(*database, setting, "the program", expectation.measured));
  if (given && given->device.kind == "cpu" && given->levels.size() > 1)
    expectation.links = planning::hostLinksOf(*given);
  return expectation;
}

/// Says once why a profile is not used.
void Compilation::noteUnmeasured(StringRef what, StringRef why) {
  if (!why.empty() && !toldOfProfile)
    note(what + ": " + why);
  toldOfProfile |= !why.empty();
}
