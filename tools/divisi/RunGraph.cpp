// divisi run-graph: runs a model's forward function on given inputs in this process, for tests of operators.
#include "divisi/Commands.h"
#include "divisi/Output.h"

#include "compiler/Diagnostics.h"
#include "compiler/Import/Import.h"
#include "compiler/Jit.h"
#include "compiler/Manifest.h"
#include "compiler/Pipeline.h"
#include "compiler/Profile/JsonFile.h"
#include "dialects/Graph/Graph.h"
#include "runtime/core/Context.h"
#include "runtime/data/NpyFile.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;
namespace json = llvm::json;

namespace {

struct Case {
  std::string model, outputs;
  std::map<std::string, std::string> inputs;
};

/// NumPy's name of an element type.
std::string numpyType(Type element) {
  if (element.isInteger(1))
    return "|b1";
  char kind = isa<FloatType>(element) ? 'f' : element.isUnsignedInteger() ? 'u' : 'i';
  int64_t bytes = graph::bytesOfElement(element);
  return (bytes == 1 ? "|" : "<") + std::string(1, kind) + std::to_string(bytes);
}

std::string writeNpy(const std::string &path, Type type, const std::vector<char> &bytes) {
  auto tensor = cast<RankedTensorType>(type);
  std::string shape;
  for (int64_t size : tensor.getShape())
    shape += std::to_string(size) + ",";
  std::string header =
      "{'descr': '" + numpyType(tensor.getElementType()) + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.resize((header.size() + 10 + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  return tools::writeOutput(path, [&](llvm::raw_ostream &out) {
    out << StringRef("\x93NUMPY\x01\x00", 8) << (char)(header.size() & 255) << (char)(header.size() >> 8) << header;
    out.write(bytes.data(), bytes.size());
  });
}

/// Runs one case. Returns an error text, or "".
std::string runCase(const Case &test, DivisiContext &runtime) {
  DialectRegistry registry;
  registerAll(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  std::string errors;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      errors += (errors.empty() ? "" : "; ") + compiler::describe(diagnostic);
    return success();
  });
  ImportOptions options;
  options.forwardOnly = true;
  auto model = importOnnx(context, test.model, options);
  if (failed(model))
    return errors;
  auto function = JitFunction::compile(*model->module);
  if (!function)
    return llvm::toString(function.takeError()) + (errors.empty() ? "" : ": " + errors);
  for (JitFunction::Tensor &input : (*function)->inputs) {
    auto file = test.inputs.find(input.name);
    if (file == test.inputs.end())
      return "no value for input '" + input.name + "'";
    auto npy = runtime::NpyFile::open(file->second);
    if (!npy.ok())
      return npy.status().message();
    input.bytes.assign(npy->data(), npy->data() + npy->bytes());
    if ((int64_t)input.bytes.size() != graph::bytesOf(input.type))
      return "input '" + input.name + "' has " + std::to_string(input.bytes.size()) + " bytes, expected " +
             std::to_string(graph::bytesOf(input.type));
  }
  (*function)->run(&runtime);
  runtime.forgetCalls(); // this function's code is freed
  if (runtime.failed()) {
    std::string message = runtime.error.message();
    runtime.error = {};
    return message;
  }
  if (auto code = llvm::sys::fs::create_directories(test.outputs))
    return "cannot make the folder '" + test.outputs + "': " + code.message();
  for (const JitFunction::Tensor &output : (*function)->outputs) {
    std::string name = output.name;
    std::replace(name.begin(), name.end(), '/', '_');
    if (std::string error = writeNpy(test.outputs + "/" + name + ".npy", output.type, output.bytes); !error.empty())
      return error;
  }
  return "";
}

/// Reads the cases of a JSON list.
llvm::Expected<std::vector<Case>> readCases(const std::string &path) {
  auto file = compiler::readText(path, "list of cases");
  if (!file)
    return file.takeError();
  auto list = json::parse((*file)->getBuffer());
  if (!list)
    return list.takeError();
  std::vector<Case> cases;
  if (!list->getAsArray())
    return llvm::createStringError("'" + path + "': expected a list of cases");
  for (const json::Value &value : *list->getAsArray()) {
    Case test;
    json::Path::Root root("case");
    json::ObjectMapper map(value, root);
    if (!map || !map.map("model", test.model) || !map.map("outputs", test.outputs) || !map.map("inputs", test.inputs))
      return root.getError();
    cases.push_back(std::move(test));
  }
  return cases;
}

int runBatch(const std::string &path, DivisiContext &runtime) {
  auto cases = readCases(path);
  if (!cases) {
    llvm::errs() << "error: " << llvm::toString(cases.takeError()) << "\n";
    return 2;
  }
  for (auto [i, test] : llvm::enumerate(*cases)) {
    std::string error = runCase(test, runtime);
    json::Object line{{"case", (int64_t)i}, {"ok", error.empty()}};
    if (!error.empty())
      line["error"] = json::isUTF8(error) ? error : json::fixUTF8(error);
    llvm::outs() << json::Value(std::move(line)) << "\n";
    llvm::outs().flush();
  }
  return 0;
}
} // namespace

void tools::addRunGraph(CLI::App &app, int &exitCode) {
  struct Flags {
    Case test;
    std::vector<std::string> inputs;
    std::string batch;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App *command = app.add_subcommand("run-graph", "run a model's forward function on .npy inputs (operator tests)");
  command->add_option("model", flags->test.model, "an ONNX file");
  command->add_option("--input", flags->inputs, "value of an input: NAME=FILE.npy (repeatable)");
  command->add_option("--output", flags->test.outputs, "folder for the outputs, one .npy each");
  command->add_option("--batch", flags->batch, "run a list of cases: [{\"model\", \"inputs\", \"outputs\"}] as JSON");
  command->callback([flags, &exitCode] {
    DivisiContext runtime(runtime::configureThreads(0));
    if (!flags->batch.empty()) {
      exitCode = runBatch(flags->batch, runtime);
      return;
    }
    std::string error =
        flags->test.model.empty() || flags->test.outputs.empty() ? "expected MODEL and --output DIR" : "";
    for (const std::string &input : flags->inputs) {
      auto [name, file] = StringRef(input).split('=');
      flags->test.inputs[name.str()] = file.str();
    }
    if (error.empty())
      error = runCase(flags->test, runtime);
    if (!error.empty())
      llvm::errs() << "error: " << error << "\n";
    exitCode = error.empty() ? 0 : 1;
  });
}
