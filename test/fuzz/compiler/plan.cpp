// Plan files: the plan's decisions, and the pipeline beside them.
#include "compiler/PlanFile.h"
#include "passes/Planning/ParseDump.h"
#include "test/fuzz/compiler/Dumps.h"
#include "test/fuzz/compiler/Tokens.h"

using namespace divisi;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mlir::MLIRContext &context = fuzz::context();
  fuzz::Heard heard(context);
  mlir::OwningOpRef<mlir::ModuleOp> file;
  dist::PlanOp plan = planning::parsePlan(file, fuzz::fileOf(fuzz::text(data, size)), &context);
  bool good = plan && succeeded(compiler::readPipeline(plan));
  heard.expectError(!good);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  return fuzz::mutateTokens(data, size, most, seed);
}
