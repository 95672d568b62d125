// divisi compile: from ONNX (or a dump) to an executable.
#include "codegen/Cuda/Ptx.h"
#include "compiler/Compilation.h"
#include "compiler/ProgramMeaning.h"
#include "divisi/Calibrate.h"
#include "divisi/Commands.h"
#include "divisi/DeviceFlags.h"
#include "divisi/Fail.h"
#include "divisi/FollowDump.h"
#include "divisi/ListParameters.h"
#include "divisi/ModelFlags.h"
#include "divisi/Output.h"

#include "llvm/ADT/StringExtras.h"
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

/// What the flags ask for, once they have been checked.
CompileRequest requestOf(const CompileFlags &flags) {
  const bool ptx = flags.emit == "ptx";
  CompileRequest request{.model = flags.model, .defaults = flags.model.defaults, .devices = flags.devices, .sync = flags.devices.sync.sync};
  request.syncOfDump = flags.devices.sync.ofDump;
  request.asksForPlan = flags.devices.asksForPlan();
  request.isProgram = flags.emit.empty();
  request.target = request.isProgram      ? Level::llvm
                   : flags.emit == "plan" ? Level::planned
                   : ptx                  ? Level::exec
                                          : *levelByName(flags.emit);
  request.writesPlan = request.target == Level::planned;
  request.name = llvm::sys::path::filename(flags.output).str();
  request.cpu = flags.hasTarget("cpu");
  request.cuda = flags.hasTarget("cuda") || ptx;
  request.ptx = ptx && !flags.hasTarget("cuda");
  request.architectures = flags.architectures;
  request.epilogues = !flags.noEpilogues;
  request.machine = [off = flags.devices.noCalibration] {
    return tools::calibratedMachine(off ? tools::Calibrating::off : tools::Calibrating::known);
  };
  request.machineFor = [off = flags.devices.noCalibration](llvm::StringRef cluster) { return tools::machineFor(cluster, !off); };
  return request;
}

/// Writes the result of --emit to the output file or to standard output.
int write(const CompileFlags &flags, llvm::function_ref<void(raw_ostream &)> text) {
  std::string wrong = tools::writeOutput(flags.output.empty() ? "-" : flags.output, text);
  return wrong.empty() ? 0 : tools::fail(wrong);
}

int dumpPtx(const CompileFlags &flags, ModuleOp module) {
  auto kernels = codegen::lowerToCuda(module);
  if (failed(kernels))
    return 1;
  auto texts = codegen::emitPtx(*kernels->module, flags.architectures);
  if (!texts)
    return tools::fail(llvm::toString(texts.takeError()));
  return write(flags, [&](raw_ostream &out) {
    codegen::describeKernels(*kernels, out);
    llvm::interleave(*texts, out, "");
  });
}

int dump(const CompileFlags &flags, ModuleOp module) {
  if (flags.emit == "ptx")
    return dumpPtx(flags, module);
  auto plans = module.getOps<dist::PlanOp>();
  if (flags.emit != "plan") { // with all constants, so that a dump can be compiled further
    sealDump(module);
    return write(flags, [&](raw_ostream &out) { out << module << "\n"; });
  }
  if (plans.empty())
    return tools::fail("--emit=plan: there is no plan for one device; ask for several with --devices N or --mesh, or "
                       "--strategy data or operator where a search stays on one");
  return write(flags, [&](raw_ostream &out) { out << *plans.begin() << "\n"; });
}

/// Compiles one program, or writes the module at the level of --emit; returns the exit code.
int compile(const CompileFlags &flags, Executable &executable) {
  const CompileRequest request = requestOf(flags);
  Compilation compilation(request, executable);
  if (failed(compilation.run()))
    return 1;
  if (!request.isProgram)
    return dump(flags, compilation.module());
  const std::string about = executable.about();
  llvm::Error wrong = executable.add(compilation.module(), {flags.cpu}, compilation.hasManyRanks());
  return wrong ? tools::fail(about + llvm::toString(std::move(wrong))) : 0;
}

} // namespace

/// Compiles a program for each number of devices and links them; returns the exit code.
static int compileAll(CompileFlags &flags, const CLI::App &command, const tools::Installation &installation) {
  auto numbers = flags.devices.numbers();
  if (numbers.size() > 1 && !flags.emit.empty())
    return tools::fail("--emit writes the module of one program: name one number of --devices, such as --devices " +
                           llvm::Twine(numbers.back()),
                       2);
  if (failed(tools::followDump(flags.model, flags.devices)))
    return 1;
  Executable executable(flags.output, numbers);
  size_t programs = std::max<size_t>(1, numbers.size());
  std::vector<CompileFlags> each(programs, flags);
  for (auto [i, own] : llvm::enumerate(each)) { // all are checked before the first is compiled
    own.devices.devices = numbers.empty() ? 0 : numbers[i];
    std::string wrong = own.devices.finish(command);
    if (!wrong.empty())
      return tools::fail((own.devices.sync.ofDump ? "'" + own.model.input + "' says " + tools::SyncFlags::textOf(*own.devices.sync.ofDump) + ": " : "") +
                             (programs > 1 ? "with --devices " + llvm::Twine(numbers[i]) + ": " : llvm::Twine()) + wrong,
                         2);
    own.model.import.accumulate = own.devices.accumulate;
    own.model.import.weightsOptional = !flags.emit.empty(); // a dump contains no weights
  }
  for (const CompileFlags &own : each)
    if (int code = compile(own, executable))
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
                    "on GPUs, no bias, activation or sum in the library call of a matmul");
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
      wrong = flags->emit.empty() ? checkProgram(*command, flags->output) : checkOutput(*command, "-o", flags->output);
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
