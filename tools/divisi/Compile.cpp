// divisi compile: from ONNX (or a dump) to an executable.
#include "divisi/Commands.h"
#include "divisi/Diagnostics.h"

#include "codegen/Emit/Program.h"
#include "compiler/Import/Import.h"
#include "compiler/Link.h"
#include "compiler/Manifest.h"
#include "compiler/Pipeline.h"
#include "compiler/WeightsFile.h"
#include "dialects/Dist/Plan.h"
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
  std::string input, output, emit, cpu = "native", loss, batchNorm = "training", batchNormStats = "global", strategy;
  int64_t devices = 0;
  PlanOptions plan;
  std::vector<std::string> dims;
  ImportOptions import;
  TrainOptions train;
  RunDefaults defaults;
};

/// Fixed, so that a program does not depend on the machine that compiles it.
constexpr unsigned compileThreads = 2;

class Compilation {
public:
  Compilation(const CompileFlags &flags, const tools::Installation &installation)
      : flags(flags), installation(installation), diagnostics(&context) {
    DialectRegistry registry;
    registerAll(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.printOpOnDiagnostic(false); // an error is one line
  }

  int run() {
    if (failed(read()))
      return 1;
    Level target = flags.emit.empty()     ? Level::llvm
                   : flags.emit == "plan" ? Level::planned
                                          : *levelByName(flags.emit);
    Level level = levelOf(*model.module);
    bool asksForPlan = flags.plan.many() || flags.devices || !flags.strategy.empty() || flags.plan.zero;
    if (level >= Level::planned && asksForPlan)
      return fail("'" + flags.input + "' is planned already: leave out --devices, --mesh, --strategy, --pin, --zero and --plan");
    TrainOptions train = flags.train;
    if (failed(applyMesh(train)))
      return 1;
    if (level < Level::train && target >= Level::train) {
      if (failed(passes([&](OpPassManager &pm) { addTrainPipeline(pm, train); })))
        return 1;
      level = Level::train;
    }
    if (level < Level::planned && target >= Level::planned && flags.plan.many()) {
      if (failed(passes([&](OpPassManager &pm) { addPlanPipeline(pm, flags.plan); })))
        return 1;
      level = Level::planned;
    }
    if (level == Level::planned && target >= Level::dist) {
      if (failed(passes([&](OpPassManager &pm) { addDistPipeline(pm, flags.plan); })))
        return 1;
      level = Level::dist;
    }
    if (level < Level::exec && target >= Level::exec) {
      if (failed(passes(addExecPipeline)))
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

  LogicalResult read() {
    if (StringRef(flags.input).ends_with(".mlir")) {
      model.module = parseSourceFile<ModuleOp>(flags.input, &context);
      return success((bool)model.module);
    }
    auto imported = importOnnx(context, flags.input, flags.import);
    if (failed(imported))
      return failure();
    model = std::move(*imported);
    for (const std::string &warning : model.warnings)
      llvm::errs() << "warning: " << warning << "\n";
    return success();
  }

  /// What the training step depends on of the mesh: that of the flags, or of the plan file.
  LogicalResult applyMesh(TrainOptions &train) {
    std::optional<dist::Mesh> mesh;
    std::string error;
    if (!flags.plan.mesh.empty())
      mesh = planning::parseMesh(flags.plan.mesh, error);
    if (!flags.plan.file.empty()) {
      OwningOpRef<ModuleOp> text = parseSourceFile<ModuleOp>(flags.plan.file, &context);
      if (!text)
        return failure();
      for (auto plan : text->getOps<dist::PlanOp>())
        mesh = dist::toMesh(plan.getMesh());
    }
    if (!mesh)
      return success();
    train.splitProjections = mesh->find("model").has_value();
    auto data = mesh->find("data");
    if (flags.batchNormStats == "local" && data)
      train.batchNormGroups = mesh->axes[*data].size;
    return success();
  }

  LogicalResult passes(llvm::function_ref<void(OpPassManager &)> add) {
    PassManager pm(&context);
    add(pm);
    return pm.run(*model.module);
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
    codegen::ProgramData data{writeManifest(*model.module, name, flags.defaults, weights), model.skeleton};
    return codegen::lowerToLlvm(*model.module, data);
  }

  int dump() {
    std::error_code code;
    llvm::ToolOutputFile out(flags.output.empty() ? "-" : flags.output, code, llvm::sys::fs::OF_Text);
    if (code)
      return fail("cannot write '" + flags.output + "': " + code.message());
    if (flags.emit == "plan") {
      auto plans = model.module->getOps<dist::PlanOp>();
      if (plans.empty())
        return fail("--emit=plan: there is no plan for one device; ask for several with --devices N or --mesh");
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
  MLIRContext context{MLIRContext::Threading::DISABLED};
  tools::DiagnosticPrinter diagnostics;
  ImportedModel model;
  bool manyRanks = false;
};

/// The mesh that --devices, --strategy and --mesh ask for, or what is wrong with them.
std::string chooseMesh(CompileFlags &flags, bool meshGiven) {
  if (meshGiven && flags.plan.mesh.empty())
    return "--mesh is empty: expected AXIS=SIZE,..., such as data=2,model=4";
  if (!flags.plan.file.empty()) {
    if (!flags.plan.mesh.empty() || !flags.strategy.empty() || !flags.plan.pins.empty() || flags.plan.zero || flags.devices)
      return "--plan FILE has all decisions: leave out --devices, --mesh, --strategy, --pin and --zero";
    return "";
  }
  if (flags.plan.mesh.empty() && flags.devices > 1)
    flags.plan.mesh = (flags.strategy == "operator" ? "model=" : "data=") + std::to_string(flags.devices);
  else if (!flags.plan.mesh.empty() && !flags.strategy.empty())
    return "--strategy and --mesh exclude each other: the axis data splits the batch, the axis model the weights";
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

/// NAME=N pairs.
std::string parseDims(const std::vector<std::string> &texts, std::map<std::string, int64_t> &dims) {
  for (const std::string &text : texts) {
    auto [name, value] = StringRef(text).split('=');
    int64_t size;
    if (name.empty() || value.getAsInteger(10, size) || size < 1)
      return "--dim expects NAME=N with a positive N, got '" + text + "'";
    dims[name.str()] = size;
  }
  return "";
}
} // namespace

void tools::addCompile(CLI::App &app, const Installation &installation, int &exitCode) {
  auto flags = std::make_shared<CompileFlags>();
  CLI::App *command = app.add_subcommand("compile", "compile a model to a program that trains it");
  command->add_option("model", flags->input, "an ONNX file, or a dump (.mlir) of any level")->required();
  command->add_option("-o", flags->output, "the program to write; the weights go to FILE.safetensors");
  command->add_option("--emit", flags->emit, "write the module at a level instead: graph, train, plan, planned, dist, exec or llvm");

  auto *model = command->add_option_group("Model");
  model->add_option("--loss", flags->loss, "put a loss on an output: cross_entropy, mse or bce (logits)")
      ->check(CLI::IsMember({"cross_entropy", "mse", "bce"}));
  model->add_option("--output", flags->import.output, "the output that is the loss, or that --loss is put on");
  model->add_option("--label", flags->import.label, "name of the input that --loss compares with");
  model->add_option("--dim", flags->dims, "size of a symbolic dimension: NAME=N (repeatable)");
  model->add_option("--freeze", flags->import.freeze, "parameters that do not train: a pattern with * and ?");
  model->add_option("--batch-norm", flags->batchNorm, "batch norm exported for inference: training (default) or inference")
      ->check(CLI::IsMember({"training", "inference"}));

  auto *training = command->add_option_group("Training");
  training->add_option("--optimizer", flags->train.optimizer, "sgd (default), adam or adamw")
      ->check(CLI::IsMember({"sgd", "adam", "adamw"}));
  training->add_option("--lr", flags->defaults.lr, "learning rate; the program's --lr overrides it")->capture_default_str();
  training->add_option("--momentum", flags->train.momentum, "momentum of sgd");
  training->add_flag("--nesterov", flags->train.nesterov, "Nesterov's momentum");
  training->add_option("--beta1", flags->train.beta1, "decay of adam's first moment")->capture_default_str();
  training->add_option("--beta2", flags->train.beta2, "decay of adam's second moment")->capture_default_str();
  training->add_option("--eps", flags->train.eps, "added to adam's denominator")->capture_default_str();
  training->add_option("--weight-decay", flags->train.weightDecay, "L2 for sgd and adam, decoupled for adamw");
  training->add_option("--clip-norm", flags->train.clipNorm, "largest global norm of the gradients");
  training->add_option("--lr-schedule", flags->defaults.schedule, "constant, linear, cosine or step")
      ->check(CLI::IsMember({"constant", "linear", "cosine", "step"}));
  training->add_option("--warmup-steps", flags->defaults.warmupSteps, "steps in which the learning rate grows to --lr");

  training->add_option("--precision", flags->train.precision, "fp32 (default) or bf16: products of bf16, sums in fp32")
      ->check(CLI::IsMember({"fp32", "bf16"}));
  auto *devices = command->add_option_group("Devices");
  devices->add_option("--devices", flags->devices, "number of devices: one process each")->check(CLI::Range(1, 4096));
  devices->add_option("--strategy", flags->strategy, "data (default) splits the batch, operator the weights")
      ->check(CLI::IsMember({"data", "operator"}));
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
    static const std::map<std::string, ImportOptions::Loss> losses = {{"cross_entropy", ImportOptions::Loss::crossEntropy},
                                                                      {"mse", ImportOptions::Loss::mse},
                                                                      {"bce", ImportOptions::Loss::bce}};
    std::string wrong = parseDims(flags->dims, flags->import.dims);
    if (wrong.empty() && !flags->emit.empty() && flags->emit != "plan" && !levelByName(flags->emit))
      wrong = "--emit expects graph, train, plan, planned, dist, exec or llvm, got '" + flags->emit + "'";
    if (wrong.empty() && flags->emit.empty() && flags->output.empty())
      wrong = "-o OUTPUT is missing (or --emit LEVEL)";
    if (wrong.empty() && !flags->loss.empty() && flags->import.label.empty())
      wrong = "--loss needs --label NAME, the name of the input that it compares with";
    if (wrong.empty())
      wrong = chooseMesh(*flags, command->count("--mesh") > 0);
    if (wrong.empty() && !codegen::isKnownCpu(flags->cpu))
      wrong = "--cpu " + flags->cpu + ": unknown processor (try native, x86-64-v3 or x86-64-v4)";
    if (!wrong.empty()) {
      llvm::errs() << "error: " << wrong << "\n";
      exitCode = 2;
      return;
    }
    if (!flags->loss.empty())
      flags->import.loss = losses.at(flags->loss);
    flags->import.batchNormTraining = flags->batchNorm == "training";
    exitCode = Compilation(*flags, installation).run();
  });
}
