#include "compiler/Session.h"

#include "passes/Planning/ParseDump.h"
#include "passes/Training/Optimizer.h"

#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;

Session::Session(const std::string &about, bool warns) : warns(warns), diagnostics(&context, about) {
  DialectRegistry registry;
  registerAll(registry);
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
  context.printOpOnDiagnostic(false); // an error is one line
}

LogicalResult Session::read(const ModelRequest &request) {
  const std::string &input = request.input;
  if (request.isDump()) {
    model.module = parseDump(input, &context);
    if (!model.module)
      return failure();
    auto refuse = [&](const char *what, ArrayRef<std::string> flags) {
      return emitError(UnknownLoc::get(&context), "'") << input << "' is " << what << ": leave out " << llvm::join(flags, ", ");
    };
    if (!request.importFlags.empty())
      return refuse("a dump, and these flags are for ONNX files", request.importFlags);
    if (!request.trainFlags.empty() && levelOf(*model.module) >= Level::train)
      return refuse("a training step already, and these flags make one", request.trainFlags);
    return success();
  }
  auto imported = importOnnx(context, input, request.import);
  if (failed(imported))
    return failure();
  model = std::move(*imported);
  if (!warns)
    return success();
  for (const std::string &warning : model.warnings)
    llvm::errs() << "warning: " << warning << "\n";
  for (const std::string &note : model.notes)
    llvm::errs() << "note: " << note << "\n";
  return success();
}

LogicalResult Session::run(llvm::function_ref<void(OpPassManager &)> addPasses) {
  return runPasses(*model.module, addPasses);
}

FailureOr<std::optional<double>> compiler::followTrainingInfo(ModuleOp module, const ImportOptions &flags, TrainOptions &train) {
  Attribute noted = module->removeDiscardableAttr(graph::names::optimizer);
  if (!noted || flags.optimizerIsGiven)
    return std::optional<double>();
  auto parts = dyn_cast<DictionaryAttr>(noted);
  training::OptimizerSettings settings = training::settingsOf(parts ? parts : DictionaryAttr::get(module.getContext()));
  NamedAttrList again;
  if (training::findOptimizer(settings.optimizer))
    again = NamedAttrList(training::toAttr(settings, module.getContext()));
  auto rate = parts ? parts.getAs<FloatAttr>("lr") : FloatAttr();
  if (rate)
    again.set("lr", rate);
  if (again.getDictionary(module.getContext()) != noted) // a dump may be edited
    return module.emitError("'") << graph::names::optimizer << "' is not an optimizer with all of its constants and lr, as the import writes it";
  std::string wrong = training::wrongConstant(settings);
  if (wrong.empty() && rate && !(std::isfinite(rate.getValueAsDouble()) && rate.getValueAsDouble() >= 0))
    wrong = "lr expects a finite number that is not negative";
  if (!wrong.empty())
    return module.emitError("'") << graph::names::optimizer << "': " << wrong;
  static_cast<training::OptimizerSettings &>(train) = settings;
  return rate ? std::optional(rate.getValueAsDouble()) : std::nullopt;
}
