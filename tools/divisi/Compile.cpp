// divisi compile: from ONNX (or a dump) to an executable.
#include "divisi/Commands.h"
#include "divisi/ModelFlags.h"
#include "divisi/Session.h"

#include "codegen/Emit/Program.h"
#include "compiler/Import/Import.h"
#include "compiler/Link.h"
#include "compiler/Manifest.h"
#include "compiler/Pipeline.h"
#include "compiler/Profile/Expectation.h"
#include "compiler/RankPlans.h"
#include "compiler/WeightsFile.h"
#include "dialects/Dist/Plan.h"
#include "passes/Planning/Cost/Collectives.h"
#include "passes/Planning/Passes.h"
#include "passes/Planning/Strategy.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;

namespace {

struct CompileFlags {
  tools::ModelFlags model;
  std::string output, emit, cpu = "native", batchNormStats = "global", strategy, cluster;
  int64_t devices = 0;
  PlanOptions plan;
};

/// On a plan: fused projections were split before it was made, as they are wherever there is an axis "model".
constexpr StringLiteral splitProjections = "split_projections";

/// Fixed, so that a program does not depend on the machine that compiles it.
constexpr unsigned compileThreads = 2;

class Compilation {
public:
  Compilation(const CompileFlags &flags, const tools::Installation &installation)
      : flags(flags), installation(installation) {}

  int run() {
    if (failed(session.read(flags.model.input, flags.model.import)))
      return 1;
    Level target = flags.emit.empty()     ? Level::llvm
                   : flags.emit == "plan" ? Level::planned
                                          : *levelByName(flags.emit);
    Level level = levelOf(*model.module);
    bool asksForPlan = flags.plan.many() || flags.devices || !flags.strategy.empty() || flags.plan.zero;
    if (level >= Level::planned && asksForPlan)
      return fail("'" + flags.model.input + "' is planned already: leave out --devices, --mesh, --strategy, --pin, --zero and --plan");
    TrainOptions train = flags.model.train;
    if (failed(applyMesh(train)))
      return 1;
    if (level < Level::train && target >= Level::train) {
      if (failed(session.run([&](OpPassManager &pm) { addTrainPipeline(pm, train); })))
        return 1;
      level = Level::train;
    }
    if (level < Level::planned && target >= Level::planned && flags.plan.many()) {
      if (flags.plan.cluster.empty() ? failed(session.run([&](OpPassManager &pm) { addPlanPipeline(pm, flags.plan); }))
                                     : failed(searchPlan()))
        return 1;
      level = levelOf(*model.module); // a search may leave it on one device
    }
    if (level == Level::planned && target >= Level::dist) {
      if (failed(session.run([&](OpPassManager &pm) { addDistPipeline(pm, flags.plan); })))
        return 1;
      level = Level::dist;
    }
    if (level < Level::exec && target >= Level::exec) {
      if (failed(session.run(addExecPipeline)))
        return 1;
      level = Level::exec;
    }
    if (target < Level::llvm)
      return dump();
    if (level < Level::llvm && failed(lower()))
      return 1;
    return flags.emit.empty() ? writeProgram() : dump();
  }

private:
  int fail(const llvm::Twine &message) {
    llvm::errs() << "error: " << message << "\n";
    return 1;
  }

  /// What the training step depends on of the mesh: that of the flags, or of the plan file.
  LogicalResult applyMesh(TrainOptions &train) {
    std::optional<dist::Mesh> mesh;
    std::string error;
    train.splitProjections = !flags.plan.cluster.empty();
    if (!flags.plan.mesh.empty())
      mesh = planning::parseMesh(flags.plan.mesh, error);
    if (!flags.plan.file.empty()) {
      OwningOpRef<ModuleOp> text = parseSourceFile<ModuleOp>(flags.plan.file, &session.context);
      if (!text)
        return failure();
      for (auto plan : text->getOps<dist::PlanOp>())
        mesh = dist::toMesh(plan.getMesh()), train.splitProjections = plan->hasAttr(splitProjections);
    }
    if (!mesh)
      return success();
    train.splitProjections |= mesh->find("model").has_value();
    auto data = mesh->find("data");
    if (flags.batchNormStats == "local" && data)
      train.batchNormGroups = mesh->axes[*data].size;
    return success();
  }

  LogicalResult lower() {
    WeightsReference weights;
    if (!model.weights.empty() && flags.emit.empty()) {
      auto written = writeWeights(flags.output + ".safetensors", model.weights);
      if (!written) {
        fail(llvm::toString(written.takeError()));
        return failure();
      }
      weights = *written;
    }
    for (auto task : model.module->getOps<func::FuncOp>())
      manyRanks |= task->hasAttr(dist::names::partitioned);
    StringRef name = llvm::sys::path::filename(flags.output);
    auto expectation = expect();
    if (failed(expectation))
      return failure();
    codegen::ProgramData data{writeManifest(*model.module, name, flags.model.defaults, weights, &*expectation), model.skeleton};
    return codegen::lowerToLlvm(*model.module, data);
  }

  /// Follows the best plan for the cluster, by measured times where there are some.
  LogicalResult searchPlan() {
    std::string error;
    std::string hash; // of the module as a plan file will meet it again
    if (failed(session.run(addSimplify)))
      return failure();
    hash = planning::hashOfModel(*model.module);
    auto cluster = planning::parseCluster(flags.plan.cluster, planning::thisMachine(), error);
    auto database = ProfileDatabase::read(ProfileDatabase::defaultFile(), error);
    planning::PlannerOptions options;
    for (const std::string &pin : flags.plan.pins)
      options.pins.push_back(*planning::parsePin(pin));
    options.alone = flags.plan.mesh.empty();
    if (options.alone)
      options.meshes = planning::enumerateMeshes(*cluster, flags.plan.devices);
    else
      options.meshes = {*planning::parseMesh(flags.plan.mesh, error)};
    if (database)
      if (auto candidates = rankPlans(*model.module, *cluster, options, *database, error); succeeded(candidates)) {
        llvm::errs() << "note: " << planning::describeChoice(*candidates) << "\n";
        if (failed(planning::applyCandidate(*model.module, candidates->front(), hash)))
          return failure();
        for (auto plan : model.module->getOps<dist::PlanOp>())
          plan->setAttr(splitProjections, UnitAttr::get(&session.context));
        return success();
      }
    if (!error.empty())
      fail(error);
    return failure();
  }

  /// What the step should take on this machine, as far as profiles tell.
  FailureOr<Expectation> expect() {
    std::string error;
    auto database = ProfileDatabase::read(ProfileDatabase::defaultFile(), error);
    if (!database) {
      fail(error);
      return failure();
    }
    auto train = model.module->lookupSymbol<func::FuncOp>("train");
    if (!train)
      return Expectation();
    int64_t ranks = 1;
    if (auto mesh = train->getAttrOfType<dist::MeshAttr>(dist::names::partitioned))
      ranks = dist::toMesh(mesh).devices();
    RunSetting setting = settingFor(ranks);
    auto cluster = planning::parseCluster("cpu:" + std::to_string(ranks), planning::thisMachine(), error);
    return expectStep(train, *cluster, setting, *database);
  }

  int dump() {
    std::error_code code;
    llvm::ToolOutputFile out(flags.output.empty() ? "-" : flags.output, code, llvm::sys::fs::OF_Text);
    if (code)
      return fail("cannot write '" + flags.output + "': " + code.message());
    if (flags.emit == "plan") {
      auto plans = model.module->getOps<dist::PlanOp>();
      if (plans.empty())
        return fail("--emit=plan: there is no plan for one device; ask for several with --devices N or --mesh, or --strategy data or operator where a search stays on one");
      (*plans.begin())->print(out.os());
    } else {
      model.module->print(out.os()); // with all constants: a dump can be compiled onward
    }
    out.os() << "\n";
    out.keep();
    return 0;
  }

  int writeProgram() {
    std::string error;
    auto objects = codegen::emitObjects(*model.module, {flags.cpu}, compileThreads, error);
    if (objects.empty())
      return fail(error);
    if (auto problem = linkProgram(objects, flags.output, installation.libraryFolder, manyRanks))
      return fail(llvm::toString(std::move(problem)));
    return 0;
  }

  const CompileFlags &flags;
  const tools::Installation &installation;
  tools::Session session;
  ImportedModel &model = session.model;
  bool manyRanks = false;
};

/// Whether a search is to choose the plan: by --strategy auto, which is what --devices or --cluster mean alone.
std::string chooseSearch(CompileFlags &flags) {
  bool wanted = flags.strategy == "auto" || !flags.cluster.empty() ||
                (flags.strategy.empty() && flags.plan.mesh.empty() && !flags.plan.zero && flags.devices > 1 &&
                 flags.batchNormStats == "global");
  if (!wanted)
    return "";
  if (!flags.strategy.empty() && flags.strategy != "auto")
    return "--cluster is for --strategy auto, which asks what plans cost on it";
  if (flags.plan.zero)
    return "--zero is for --strategy data or --mesh: --strategy auto chooses it by itself";
  if (flags.batchNormStats == "local")
    return "--batch-norm-stats=local needs --strategy data or --mesh: a search does not choose other numbers";
  std::string error;
  auto mesh = planning::parseMesh(flags.plan.mesh, error);
  if (!flags.plan.mesh.empty() && !mesh)
    return "--mesh: " + error;
  if (flags.cluster.empty() && !flags.devices && !mesh)
    return "--strategy auto needs --devices N, --cluster or --mesh";
  if (flags.cluster.empty())
    flags.cluster = "cpu:" + std::to_string(mesh ? mesh->devices() : flags.devices);
  auto cluster = planning::parseCluster(flags.cluster, planning::thisMachine(), error);
  if (!cluster)
    return "--cluster: " + error;
  int64_t wants = mesh ? mesh->devices() : flags.devices ? flags.devices : cluster->devices();
  if (flags.devices && wants != flags.devices)
    return "--mesh " + flags.plan.mesh + " has " + std::to_string(wants) + " devices, but --devices says " +
           std::to_string(flags.devices);
  if (wants > cluster->devices())
    return "--cluster " + flags.cluster + " has " + std::to_string(cluster->devices()) + " devices, " + std::to_string(wants) +
           " are asked for";
  for (const std::string &pin : flags.plan.pins)
    if (!planning::parsePin(pin))
      return "--pin expects NAME=AXES,AXES,... with one entry per dimension, such as fc1.weight=_,model; got '" + pin + "'";
  if (wants > 1) {
    flags.plan.cluster = flags.cluster;
    flags.plan.devices = wants;
  }
  return "";
}

/// The mesh that --devices, --strategy and --mesh ask for, or what is wrong with them.
std::string chooseMesh(CompileFlags &flags, bool meshGiven) {
  if (meshGiven && flags.plan.mesh.empty())
    return "--mesh is empty: expected AXIS=SIZE,..., such as data=2,model=4";
  if (!flags.plan.file.empty()) {
    if (!flags.plan.mesh.empty() || !flags.strategy.empty() || !flags.cluster.empty() || !flags.plan.pins.empty() || flags.plan.zero || flags.devices)
      return "--plan FILE has all decisions: leave out --devices, --cluster, --mesh, --strategy, --pin and --zero";
    return "";
  }
  if (std::string wrong = chooseSearch(flags); !wrong.empty() || !flags.plan.cluster.empty())
    return wrong;
  if (flags.plan.mesh.empty() && flags.devices > 1)
    flags.plan.mesh = (flags.strategy == "operator" ? "model=" : "data=") + std::to_string(flags.devices);
  else if (!flags.plan.mesh.empty() && !flags.strategy.empty())
    return "--strategy " + flags.strategy + " and --mesh exclude each other: the axis data splits the batch, the axis model the weights";
  if (flags.plan.mesh.empty()) {
    if (!flags.plan.pins.empty() || flags.plan.zero || flags.batchNormStats == "local" ||
        (!flags.strategy.empty() && !flags.devices))
      return "--strategy, --pin, --zero and --batch-norm-stats need --devices N or --mesh AXIS=N,...";
    return "";
  }
  std::string error;
  auto mesh = planning::parseMesh(flags.plan.mesh, error);
  if (!mesh)
    return "--mesh: " + error;
  if (flags.devices && mesh->devices() != flags.devices)
    return "--mesh " + flags.plan.mesh + " has " + std::to_string(mesh->devices()) + " devices, but --devices says " +
           std::to_string(flags.devices);
  for (const std::string &pin : flags.plan.pins)
    if (!planning::parsePin(pin))
      return "--pin expects NAME=AXES,AXES,... with one entry per dimension, such as fc1.weight=_,model; got '" + pin + "'";
  auto data = mesh->find("data");
  if (flags.batchNormStats == "local" && !data)
    return "--batch-norm-stats=local is about the axis data, which the mesh lacks";
  if (flags.plan.zero && !data)
    return "--zero splits over the axis data, which the mesh lacks";
  if (mesh->devices() == 1)
    flags.plan.mesh.clear();
  return "";
}
} // namespace

void tools::addCompile(CLI::App &app, const Installation &installation, int &exitCode) {
  auto flags = std::make_shared<CompileFlags>();
  CLI::App *command = app.add_subcommand("compile", "compile a model to a program that trains it");
  flags->model.addTo(*command);
  command->add_option("-o", flags->output, "the program to write; the weights go to FILE.safetensors");
  command->add_option("--emit", flags->emit, "write the module at a level instead: graph, train, plan, planned, dist, exec or llvm");
  auto *devices = command->add_option_group("Devices");
  devices->add_option("--devices", flags->devices, "number of devices: one process each")->check(CLI::Range(1, 4096));
  devices->add_option("--strategy", flags->strategy, "auto (default) searches for the fastest, data splits the batch, operator the weights")
      ->check(CLI::IsMember({"auto", "data", "operator"}));
  devices->add_option("--cluster", flags->cluster, "what auto plans for: cpu:4 (this machine, default), 8xh100, 2x8xh100, or a .toml file");
  devices->add_option("--mesh", flags->plan.mesh, "a grid of devices instead: data=2,model=4");
  devices->add_option("--pin", flags->plan.pins, "a sharding to keep: NAME=AXES,AXES,... such as fc1.weight=_,model")
      ->delimiter('\0');
  devices->add_option("--batch-norm-stats", flags->batchNormStats,
                      "statistics of the batch on all devices (global, default) or on each alone (local: other numbers)")
      ->check(CLI::IsMember({"global", "local"}));
  devices->add_option("--plan", flags->plan.file, "a plan to follow, as --emit=plan writes it")->check(CLI::ExistingFile);
  devices->add_option("--zero", flags->plan.zero,
                      "ZeRO: 1, 2 split the optimizer's state and update over data, 3 the parameters, too")
      ->check(CLI::Range(0, 3));
  command->add_option("--cpu", flags->cpu, "processor: native (default), x86-64-v3, x86-64-v4, ...");
  command->footer("Examples:\n"
                  "  divisi compile model.onnx -o model --optimizer adamw --lr 1e-3\n"
                  "  divisi compile logits.onnx -o model --loss cross_entropy --label label\n"
                  "  divisi compile model.onnx -o model --devices 4 --strategy data\n"
                  "  divisi compile model.onnx -o model --mesh data=2,model=2\n"
                  "  divisi compile model.onnx --emit train > train.mlir; divisi compile train.mlir -o model");
  command->callback([flags, command, &installation, &exitCode] {
    std::string wrong = flags->model.finish();
    if (wrong.empty() && !flags->emit.empty() && flags->emit != "plan" && !levelByName(flags->emit))
      wrong = "--emit expects graph, train, plan, planned, dist, exec or llvm, got '" + flags->emit + "'";
    if (wrong.empty() && flags->emit.empty() && flags->output.empty())
      wrong = "-o OUTPUT is missing (or --emit LEVEL)";
    if (wrong.empty())
      wrong = chooseMesh(*flags, command->count("--mesh") > 0);
    if (wrong.empty() && !codegen::isKnownCpu(flags->cpu))
      wrong = "--cpu " + flags->cpu + ": unknown processor (try native, x86-64-v3 or x86-64-v4)";
    if (!wrong.empty()) {
      llvm::errs() << "error: " << wrong << "\n";
      exitCode = 2;
      return;
    }
    exitCode = Compilation(*flags, installation).run();
  });
}
