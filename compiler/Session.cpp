#include "compiler/Session.h"

#include "passes/Planning/ParseDump.h"

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

LogicalResult Session::read(const std::string &input, const ImportOptions &options) {
  if (StringRef(input).ends_with(".mlir")) {
    model.module = parseDump(input, &context);
    return success((bool)model.module);
  }
  auto imported = importOnnx(context, input, options);
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
  PassManager manager(&context);
  addPasses(manager);
  return manager.run(*model.module);
}
