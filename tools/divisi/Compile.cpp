// divisi compile: from ONNX (or a dump) to an executable.
#include "divisi/Calibrate.h"
#include "divisi/Commands.h"
#include "divisi/DeviceFlags.h"
#include "divisi/Executable.h"
#include "divisi/ListParameters.h"
#include "divisi/ModelFlags.h"
#include "divisi/Output.h"
#include "divisi/Session.h"

#include "codegen/Cuda/Ptx.h"
#include "codegen/Emit/CheckPlaces.h"
#include "codegen/Emit/Program.h"
#include "codegen/Emit/Services.h"
#include "codegen/Kernels/BatchKernels.h"
#include "codegen/Kernels/CheckTasks.h"
#include "compiler/Import/Import.h"
#include "compiler/Manifest.h"
#include "compiler/MicrobatchSearch.h"
#include "compiler/Pipeline.h"
#include "compiler/PlanFile.h"
#include "compiler/Profile/Expectation.h"
#include "compiler/ProgramMeaning.h"
#include "compiler/RankPipelines.h"
#include "compiler/RankPlans.h"
#include "dialects/Dist/Plan.h"
#include "passes/Planning/FollowPlan.h"
#include "passes/Planning/Passes.h"
#include "passes/Planning/Strategy.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include "llvm/ADT/StringExtras.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;

namespace {

struct CompileFlags {
  tools::ModelFlags model;
  tools::DeviceFlags devices;
  std::string output, emit, cpu = "native";
  std::vector<std::string> targets = {"cpu"};
  std::vector<int> architectures{codegen::cudaArchitectures, std::end(codegen::cudaArchitectures)};
  bool noEpilogues = false, listParameters = false, json = false;

  bool hasTarget(llvm::StringRef name) const { return llvm::is_contained(targets, name); }
};

/// An error text if replicas cannot be kept in step so on the targets; else "".
std::string whyNot(const dist::Sync &sync, const CompileFlags &flags) {
  if (sync.mode == dist::Sync::Mode::allReduce || (sync.isApart() && sync.servers == 0 && !sync.asynchronous) || !flags.hasTarget("cuda"))
    return "";
  return "--sync " + dist::Sync::nameOf(sync.mode).str() +
         " is for CPUs: NCCL has no such collectives; leave out --target, or take --sync all-reduce";
}

class Compilation {
public:
  Compilation(const CompileFlags &flags, tools::Executable &executable)
      : flags(flags), plan(flags.devices.plan), microbatches(flags.devices.microbatches), sync(flags.devices.sync.sync),
        executable(executable), session(executable.about(), executable.isFirst()) {}

  int run() {
    if (failed(session.read(flags.model.input, flags.model.import)) || failed(checkNames(*session.model.module)))
      return 1;
    bool ptx = flags.emit == "ptx";
    Level target = flags.emit.empty()     ? Level::llvm
                   : flags.emit == "plan" ? Level::planned
                   : ptx                  ? Level::exec
                                          : *levelByName(flags.emit);
    Level level = levelOf(*model.module);
    if (level >= Level::planned && flags.devices.asksForPlan())
      return fail("'" + flags.model.input +
                  "' is planned already: leave out --devices, --mesh, --strategy, --pin, --zero, --remat, --plan and "
                  "--microbatches");
    if (level >= Level::train && level <= Level::exec) // a dump
      checkSeal(*model.module);
    const bool isSplit = isInMicrobatches(*model.module); // a dump
    if (isSplit && failed(readSplit(*model.module, microbatches, sync)))
      return 1;
    bool placed = level == Level::exec; // a dump with places: passes that create this level check their input
    if (placed && (failed(codegen::checkTasks(*model.module)) || failed(codegen::checkPlaces(*model.module)) ||
                   failed(codegen::checkBatches(*model.module)) || failed(codegen::checkServices(*model.module))))
      return 1;
    if (microbatches.microbatches == 0 && failed(chooseMicrobatches()))
      return 1;
    TrainOptions train = flags.model.train;
    train.forGpu = flags.hasTarget("cuda") || ptx;
    plan.target = train.forGpu ? "cuda" : "cpu";
    model.module->walk([&](graph::BatchNormOp) { hasBatchNorm = true; });
    // Without --microbatches, stages of a model with batch norm work on the whole batch: its statistics are exact.
    if (flags.devices.pipelines && hasBatchNorm && !pipelines.microbatches)
      if (failed(chooseOfBatchNorm(train)))
        return 1;
    if (failed(applyMesh(train)))
      return 1;
    if (level < Level::train && hasBatchNorm && train.batchNormGroups > 1)
      llvm::errs() << "note: batch norm uses the statistics of each of " << train.batchNormGroups
                   << " parts of the batch\n";
    if (level < Level::train && target >= Level::train) {
      noteProgram(*model.module, train, microbatches);
      if (sync.isApart())
        noteSync(*model.module, sync.text(replicas));
      if (flags.devices.pipelines) {
        beforeTrain = model.module->clone();
        trained = train;
      }
      if (failed(session.run([&](OpPassManager &pm) { addTrainPipeline(pm, train); })))
        return 1;
      level = Level::train;
    }
    bool search = !plan.cluster.empty();
    if (level < Level::planned && target >= Level::planned && microbatches.any() && !isSplit && !flags.devices.pipelines) {
      if (failed(session.run([&](OpPassManager &pm) { addMicrobatchPipeline(pm, microbatches); })))
        return 1;
      plan.model = planning::hashOfModel(*model.module);
    }
    if (level < Level::planned && target >= Level::planned && plan.many()) {
      if (!microbatches.axes.empty() && failed(chooseCuts()))
        return 1;
      if (search ? failed(searchPlan()) : failed(session.run([&](OpPassManager &pm) {
            addNarrowStages(pm, meshOfStage, microbatches);
            addPlanPipeline(pm, plan);
          })))
        return 1;
      level = levelOf(*model.module); // a search may choose one device
    }
    if (level < Level::planned && target >= Level::planned && !plan.many() && plan.remat.value_or(0) > 0)
      if (failed(session.run([&](OpPassManager &pm) { addRemat(pm, *plan.remat); })))
        return 1;
    if (!plan.model.empty()) { // before shapes are local, so that a plan file names the cuts of the program
      if (failed(chooseCuts()))
        return 1;
      if (flags.emit == "plan" || flags.emit == "planned")
        writePipeline(*model.module, microbatches, subjectOf(plan.model));
    }
    writeSync(*model.module, sync);
    if (level == Level::planned && target >= Level::dist) {
      if (failed(session.run([&](OpPassManager &pm) { addDistPipeline(pm, plan, microbatches); })))
        return 1;
      level = Level::dist;
    } else if (level < Level::dist && target >= Level::dist && microbatches.any()) {
      if (failed(session.run([&](OpPassManager &pm) { addTaskPipeline(pm, microbatches); })))
        return 1;
      level = Level::dist;
    }
    if (level < Level::exec && target >= Level::exec) {
      if (failed(session.run([&](OpPassManager &pm) { addExecPipeline(pm, train.forGpu, !flags.noEpilogues); })))
        return 1;
      level = Level::exec;
    }
    if (level == Level::exec && failed(checkServers(*model.module)))
      return 1;
    if (ptx)
      return dumpPtx();
    if (target < Level::llvm)
      return dump();
    if (level < Level::llvm && failed(lower()))
      return 1;
    return flags.emit.empty() ? addProgram() : dump();
  }

private:
  int fail(const llvm::Twine &message) { return tools::fail(executable.about() + message); }

  /// Sets the options of the training step that depend on the mesh of the flags or of the plan file.
  LogicalResult applyMesh(TrainOptions &train) {
    std::optional<dist::Mesh> mesh;
    train.splitProjections = !plan.cluster.empty();
    follow(microbatches, train);
    train.markGradients |= (flags.devices.pipelines && pipelines.microbatches == 1) || pipelines.asynchronous;
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
      sync = *synchronisation;
      if (std::string wrong = whyNot(sync, flags); !wrong.empty())
        return failure(fail(wrong));
    }
    if (!mesh)
      return success();
    meshOfStage = planning::nameOf(*mesh);
    train.splitProjections |= mesh->find("model").has_value();
    auto data = mesh->find("data");
    if (data)
      replicas = mesh->axes[*data].size;
    if (flags.devices.batchNormStats == "local" || sync.isApart())
      train.batchNormGroups *= replicas;
    if (auto attr = sync.toAttr(&session.context))
      (*model.module)->setDiscardableAttr(dist::names::sync, attr);
    return success();
  }

  /// The subject of the program's plan: a training step with this hash.
  planning::PlanSubject subjectOf(const std::string &hash) const { return {hash, plan.target}; }

  LogicalResult lower() {
    WeightsReference weights;
    if (!model.weights.empty() && flags.emit.empty()) {
      auto written = executable.weights(model.weights);
      if (!written) {
        fail(llvm::toString(written.takeError()));
        return failure();
      }
      weights = *written;
    }
    for (auto task : model.module->getOps<func::FuncOp>())
      manyRanks |= task->hasAttr(dist::names::partitioned);
    StringRef name = llvm::sys::path::filename(flags.output);
    if (llvm::Error wrong = executable.check(*model.module, ranksOf(*model.module, sync)))
      return failure(fail(llvm::toString(std::move(wrong))));
    auto expectation = expect();
    if (failed(expectation))
      return failure();
    if (!expectation->ends) {
      fail("the stages of this pipeline would wait for each other for ever: a fault of the compiler, if nobody has "
           "edited its dump; another --schedule or other cuts may do");
      return failure();
    }
    codegen::ProgramData data{writeManifest(*model.module, name, flags.model.defaults, weights, &*expectation),
                              model.skeleton, executable.next()};
    codegen::Targets targets{flags.hasTarget("cpu"), {}};
    if (flags.hasTarget("cuda"))
      targets.cuda = flags.architectures;
    return codegen::lowerToLlvm(*model.module, data, targets);
  }

  /// Applies the best plan for the cluster, by measured times if there are any.
  LogicalResult searchPlan() {
    if (failed(session.run(addSimplify)))
      return failure();
    auto known = clusterOfSearch();
    if (failed(known))
      return failure();
    const planning::Cluster &cluster = *known;
    auto database = ProfileDatabase::read(ProfileDatabase::defaultFile());
    planning::PlannerOptions options;
    options.pins = llvm::cantFail(planning::parsePins(plan.pins));
    // Each of several programs uses all of its devices.
    options.alone = plan.mesh.empty() && (!executable.hasSeveral() || plan.devices <= 1);
    options.remat = plan.remat;
    options.wider = options.alone && plan.devices > 1;
    if (plan.mesh.empty() && plan.devices > 1)
      options.meshes = planning::enumerateMeshes(cluster, plan.devices);
    else if (!options.alone)
      options.meshes = {llvm::cantFail(planning::parseMesh(plan.mesh))};
    if (!database)
      return failure(fail(llvm::toString(database.takeError())));
    if (flags.devices.pipelines) {
      auto piped = rankPipelines(*model.module, cluster, pipelines);
      if (piped.empty()) {
        std::string why = whyNoPipeline(*model.module, cluster, pipelines);
        if (!pipelines.microbatches && pipelines.schedule.empty() && beforeTrain && llvm::StringRef(why).consume_front("no pipeline: node "))
          piped = rankWhole(cluster);
        if (piped.empty())
          return failure(fail(why));
        llvm::errs() << "note: " << llvm::StringRef(why).drop_front(std::size("no pipeline: ") - 1)
                     << ": so they do here, one after the other\n";
      }
      if (hasBatchNorm && piped.front().options.whole())
        llvm::errs() << "note: batch norm needs the whole batch, so stages wait for each other; --microbatches N overlaps "
                        "them, with the statistics of each microbatch\n";
      return applyPipeline(std::move(piped.front()), cluster);
    }
    if (cluster.device.kind == "cuda" && !flags.hasTarget("cuda") && flags.emit.empty())
      llvm::errs() << "note: the plan is for the GPUs of --cluster, the program for CPUs: --target says so\n";
    if (cluster.device.kind != "cuda" && !flags.hasTarget("cpu") && flags.emit.empty())
      llvm::errs()
          << "note: the program is for GPUs, the plan for CPUs: --cluster 4xh100 or a file says what GPUs there are\n";
    const bool mayAccumulate = flags.devices.mayAccumulate && !hasBatchNorm && !microbatches.any();
    const bool free = options.alone && options.pins.empty() && mayAccumulate;
    OwningOpRef<ModuleOp> whole; // a copy for plan files of pipelines: ordering plans changes the module
    if (free)
      whole = model.module->clone();
    pipelining::unmarkGradients(*model.module);
    std::string hash = planning::hashOfModel(*model.module); // when a plan file is read
    auto ranked = rankPlans(*model.module, cluster, options, mayAccumulate ? 0 : 1, *database);
    if (!ranked) {
      if (std::string error = llvm::toString(ranked.takeError()); !error.empty())
        fail(error);
      return failure();
    }
    noteUnmeasured("plans are not ordered by measured times", ranked->unmeasured);
    const std::vector<planning::ModuleCandidate> &candidates = ranked->candidates;
    if (free) {
      PipelineRequest request = pipelines;
      if (plan.remat)
        request.remat = *plan.remat > 0;
      if (auto piped = betterPipeline(*whole, cluster, request, candidates.front())) {
        model.module = std::move(whole);
        return applyPipeline(std::move(*piped), cluster);
      }
    }
    llvm::errs() << "note: " << planning::describeChoice(candidates) << "\n";
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
    noteSearch(cluster);
    return success();
  }

  /// Says once why a profile is not used.
  void noteUnmeasured(StringRef what, StringRef why) {
    if (!why.empty() && !toldOfProfile)
      llvm::errs() << "note: " << what << ": " << why << "\n";
    toldOfProfile |= !why.empty();
  }

  FailureOr<planning::Cluster> clusterOfSearch() {
    auto machine = tools::machineFor(plan.cluster, !flags.devices.noCalibration);
    if (!machine)
      return failure(fail(llvm::toString(machine.takeError())));
    return llvm::cantFail(planning::parseCluster(plan.cluster, *machine)); // checked with the flags
  }

  /// Pipelines whose stages work on the whole batch: of a step whose gradients are marked.
  std::vector<PipelineCandidate> rankWhole(const planning::Cluster &cluster) {
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
  LogicalResult chooseOfBatchNorm(const TrainOptions &train) {
    int64_t count = 0;
    if (flags.devices.batchNormStats == "microbatch" && levelOf(*model.module) < Level::train) {
      auto cluster = clusterOfSearch();
      if (failed(cluster))
        return failure();
      count = searchMicrobatches(*model.module, train, *cluster, pipelines);
    }
    pipelines.microbatches = std::max<int64_t>(1, count);
    microbatches.microbatches = std::max(microbatches.microbatches, count);
    return success();
  }

  /// Writes into the plan file what a search adds to it.
  void noteSearch(const planning::Cluster &cluster) {
    for (auto written : model.module->getOps<dist::PlanOp>()) {
      written->setAttr(splitProjections, UnitAttr::get(&session.context));
      if (!cluster.calibration.empty())
        written->setAttr("calibration", StringAttr::get(&session.context, cluster.calibration));
    }
  }

  LogicalResult applyPipeline(PipelineCandidate best, const planning::Cluster &cluster) {
    best.plan.planner->complete(best.plan);
    llvm::errs() << "note: the plan " << best.name()
                 << llvm::format(": %.3g ms a step, %.3g GB a device; stages begin at ", best.seconds * 1e3,
                                 best.memory * 1e-9)
                 << llvm::join(best.options.cuts, ", ") << "\n";
    microbatches = best.options;
    if (microbatches.asynchronous())
      llvm::errs() << "note: an asynchronous pipeline does not compute the numbers of one device (docs/pipelines.md)\n";
    if (best.plan.mesh.devices() > 1) {
      model.module = std::move(*best.module);
      model.module->walk([](Operation *op) { op->removeAttr(dist::names::stage); });
      if (!microbatches.axes.empty() &&
          failed(pipelining::assignNarrowStages(*model.module, microbatches.stages, microbatches.cuts,
                                                pipelining::StageWeights::nominal(), microbatches.axes)))
        return failure();
      if (failed(planning::applyCandidate(*model.module, best.plan, subjectOf(best.hash))))
        return failure();
    } else if (failed(session.run([&](OpPassManager &pm) { addMicrobatchPipeline(pm, microbatches); }))) {
      return failure(); // nothing is sharded, as if the plan had been given
    }
    noteSchedule(*model.module, microbatches);
    writePipeline(*model.module, best.options, subjectOf(best.hash));
    noteSearch(cluster);
    return success();
  }

  /// Chooses the number of microbatches for --microbatches auto and the stages of a mesh.
  LogicalResult chooseMicrobatches() {
    auto mesh = llvm::expectedToOptional(planning::parseMesh(plan.mesh)); // null: each stage is one device
    auto data = mesh ? mesh->find("data") : std::nullopt;
    int64_t batch = batchOf(*model.module), devices = microbatches.stages / microbatches.chunks;
    int64_t count = microbatchesNear(batch, usualMicrobatchesPerStage * (double)devices,
                                     data ? mesh->axes[*data].size : 1, microbatches.chunks > 1 ? devices : 1);
    if (count < 2) {
      fail("--microbatches auto: the batch of " + llvm::Twine(batch) + " does not divide into as many as " +
           llvm::Twine(devices) + " stages need");
      return failure();
    }
    llvm::errs() << "note: " << count << " microbatches\n";
    microbatches.microbatches = count;
    return success();
  }

  /// Adds the first nodes of the stages to the flags, by nominal costs.
  LogicalResult chooseCuts() {
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

  /// The expected time of a step on this machine, as far as profiles have measurements.
  FailureOr<Expectation> expect() {
    auto database = ProfileDatabase::read(ProfileDatabase::defaultFile());
    if (!database)
      return failure(fail(llvm::toString(database.takeError())));
    RunSetting setting = settingFor(ranksOf(*model.module, sync));
    auto machine = tools::calibratedMachine(flags.devices.noCalibration ? tools::Calibrating::off : tools::Calibrating::known);
    if (!machine)
      return failure(fail(llvm::toString(machine.takeError())));
    auto cluster = llvm::cantFail(planning::parseCluster("cpu:" + std::to_string(ranksOf(*model.module, sync)), *machine));
    Expectation expectation = expectStep(*model.module, cluster, setting, *database);
    if (!database->empty() && expectation.measured < leastMeasured && flags.hasTarget("cpu"))
      noteUnmeasured("the program's expected times rest on formulas",
                     whyUnmeasured(*database, setting, "the program", expectation.measured));
    if (!plan.cluster.empty())
      if (auto given = llvm::cantFail(planning::parseCluster(plan.cluster, *machine));
          given.device.kind == "cpu" && given.levels.size() > 1)
        expectation.links = planning::hostLinksOf(given);
    return expectation;
  }

  /// Writes the result of --emit to the output file or to standard output.
  int write(llvm::function_ref<void(raw_ostream &)> text) {
    std::string wrong = tools::writeOutput(flags.output.empty() ? "-" : flags.output, text);
    return wrong.empty() ? 0 : fail(wrong);
  }

  int dump() {
    auto plans = model.module->getOps<dist::PlanOp>();
    if (flags.emit != "plan") { // with all constants, so that a dump can be compiled further
      sealDump(*model.module);
      return write([&](raw_ostream &out) { out << *model.module << "\n"; });
    }
    if (plans.empty())
      return fail("--emit=plan: there is no plan for one device; ask for several with --devices N or --mesh, or "
                  "--strategy data or operator where a search stays on one");
    return write([&](raw_ostream &out) { out << *plans.begin() << "\n"; });
  }

  int dumpPtx() {
    auto kernels = codegen::lowerToCuda(*model.module);
    if (failed(kernels))
      return 1;
    auto texts = codegen::emitPtx(*kernels->module, flags.architectures);
    if (!texts)
      return fail(llvm::toString(texts.takeError()));
    return write([&](raw_ostream &out) {
      codegen::describeKernels(*kernels, out);
      llvm::interleave(*texts, out, "");
    });
  }

  int addProgram() {
    llvm::Error wrong = executable.add(*model.module, {flags.cpu}, manyRanks);
    return wrong ? fail(llvm::toString(std::move(wrong))) : 0;
  }

  const CompileFlags &flags;
  PlanOptions plan;
  MicrobatchOptions microbatches; // from the flags or from a search
  dist::Sync sync;                // from the flags or the plan file
  int64_t replicas = 1;
  tools::Executable &executable;
  tools::Session session;
  ImportedModel &model = session.model;
  std::string meshOfStage; // from the flags or the plan file
  OwningOpRef<ModuleOp> beforeTrain; // for pipelines: the model, and how its training step was made of it
  TrainOptions trained;
  PipelineRequest pipelines = flags.devices.request;
  bool manyRanks = false, hasBatchNorm = false, toldOfProfile = false;
};

} // namespace

/// Compiles a program for each number of devices and links them; returns the exit code.
static int compileAll(const CompileFlags &flags, const CLI::App &command, const tools::Installation &installation) {
  auto numbers = flags.devices.numbers();
  if (numbers.size() > 1 && !flags.emit.empty())
    return tools::fail("--emit writes the module of one program: name one number of --devices, such as --devices " +
                           llvm::Twine(numbers.back()),
                       2);
  tools::Executable executable(flags.output, numbers);
  size_t programs = std::max<size_t>(1, numbers.size());
  std::vector<CompileFlags> each(programs, flags);
  for (auto [i, own] : llvm::enumerate(each)) { // all are checked before the first is compiled
    own.devices.devices = numbers.empty() ? 0 : numbers[i];
    std::string wrong = own.devices.finish(command);
    if (wrong.empty())
      wrong = whyNot(own.devices.sync.sync, own);
    if (!wrong.empty())
      return tools::fail((programs > 1 ? "with --devices " + llvm::Twine(numbers[i]) + ": " : llvm::Twine()) + wrong,
                         2);
    own.model.import.accumulate = own.devices.accumulate;
    own.model.import.weightsOptional = !flags.emit.empty(); // a dump contains no weights
  }
  for (const CompileFlags &own : each)
    if (int code = Compilation(own, executable).run())
      return code;
  llvm::Error wrong = flags.emit.empty() ? executable.link(installation.libraryFolder) : llvm::Error::success();
  return wrong ? tools::fail(llvm::toString(std::move(wrong))) : 0;
}

void tools::addCompile(CLI::App &app, const Installation &installation, int &exitCode) {
  auto flags = std::make_shared<CompileFlags>();
  CLI::App *command = app.add_subcommand("compile", "compile a model to a program that trains it");
  flags->model.addTo(*command);
  command->add_option("-o", flags->output, "the program to write; the weights go to FILE.safetensors");
  command->add_option("--emit", flags->emit,
                      "write the module at a level instead: graph, train, plan, planned, dist, exec, llvm or ptx");
  CLI::Option *list = command->add_flag("--list-parameters", flags->listParameters,
                                        "compile nothing: list the file's tensors, which of them train, and why");
  command->add_flag("--json", flags->json, "the list, machine-readable")->needs(list);
  flags->devices.addTo(*command);
  command->add_option("--cpu", flags->cpu, "processor: native (default), x86-64-v3, x86-64-v4, ...");
  command->add_option("--target", flags->targets, "what the program can run on: cpu (default), cuda or cpu,cuda")
      ->delimiter(',')
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command
      ->add_option("--cuda-arch", flags->architectures,
                   "compute capabilities of the GPUs (default: 80,90,100; later ones run the code for the last)")
      ->delimiter(',')
      ->check(CLI::IsMember({80, 86, 87, 89, 90, 100, 103, 120}));
  command->add_flag("--no-epilogues", flags->noEpilogues,
                    "on GPUs, no bias, activation or sum in the same library call as a product");
  command->footer("Examples:\n"
                  "  divisi compile model.onnx -o model --optimizer adamw --lr 1e-3\n"
                  "  divisi compile logits.onnx -o model --loss cross_entropy --label label\n"
                  "  divisi compile model.onnx --list-parameters --freeze 'encoder.*' --train encoder.norm.weight\n"
                  "  divisi compile model.onnx -o model --devices 4 --strategy data\n"
                  "  divisi compile model.onnx -o model --devices 2,3,4 --strategy data\n"
                  "  divisi compile model.onnx -o model --mesh data=2,model=2\n"
                  "  divisi compile model.onnx -o model --mesh stage=2,data=2 --microbatches 8\n"
                  "  divisi compile model.onnx -o model --target cpu,cuda\n"
                  "  divisi compile model.onnx --emit ptx --cuda-arch 90\n"
                  "  divisi compile model.onnx --emit train > train.mlir; divisi compile train.mlir -o model");
  command->callback([flags, command, &installation, &exitCode] {
    std::string wrong = flags->model.finish();
    if (wrong.empty() && !flags->emit.empty() && flags->emit != "plan" && flags->emit != "ptx" &&
        !levelByName(flags->emit))
      wrong = "--emit expects graph, train, plan, planned, dist, exec, llvm or ptx, got '" + flags->emit + "'";
    if (wrong.empty() && flags->listParameters) {
      exitCode = listParameters(flags->model, flags->json);
      return;
    }
    if (wrong.empty() && flags->emit.empty() && flags->output.empty())
      wrong = "-o OUTPUT is missing (or --emit LEVEL)";
    if (wrong.empty())
      wrong = flags->emit.empty() ? checkProgram(flags->output) : checkOutput(flags->output);
    if (wrong.empty() && !codegen::isKnownCpu(flags->cpu))
      wrong = "--cpu " + flags->cpu + ": unknown processor (try native, x86-64-v3 or x86-64-v4)";
    if (!wrong.empty()) {
      llvm::errs() << "error: " << wrong << "\n";
      exitCode = 2;
      return;
    }
    exitCode = compileAll(*flags, *command, installation);
  });
}
