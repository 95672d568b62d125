// Dumps of every level, and what a compilation reads of them before its passes. What is accepted and printed is accepted again, and what passes
// ask of accepted operations is answered.
#include "compiler/CheckProgram.h"
#include "compiler/PlanFile.h"
#include "passes/Planning/ParseDump.h"
#include "test/fuzz/compiler/Dumps.h"
#include "test/fuzz/compiler/Facets.h"
#include "test/fuzz/compiler/Tokens.h"

#include <cstdlib>

using namespace divisi;

/// Reads how replicas are kept in step and how microbatches run, and checks the program of level exec.
static llvm::LogicalResult follow(mlir::ModuleOp module) {
  compiler::Level level = compiler::levelOf(module);
  dist::Sync sync;
  if (level >= compiler::Level::planned && level <= compiler::Level::exec) {
    auto written = compiler::syncOfPlanned(module);
    if (failed(written))
      return llvm::failure();
    sync = *written;
  }
  compiler::MicrobatchOptions microbatches;
  if (compiler::isInMicrobatches(module) && failed(compiler::readSplit(module, sync, microbatches)))
    return llvm::failure();
  return level == compiler::Level::exec ? compiler::checkProgram(module) : llvm::success();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mlir::MLIRContext &context = fuzz::context();
  std::string printed;
  {
    fuzz::Heard heard(context);
    auto module = parseDump(fuzz::fileOf(fuzz::text(data, size)), &context);
    heard.expectError(!module);
    if (!module)
      return 0;
    llvm::raw_string_ostream(printed) << *module;
    const bool followed = succeeded(follow(*module));
    heard.expectError(!followed);
    if (followed)
      fuzz::askFacets(*module);
  }
  if (!parseDump(fuzz::fileOf(printed), &context)) {
    llvm::errs() << "what was printed is refused:\n" << printed;
    std::abort();
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  return fuzz::mutateTokens(data, size, most, seed);
}
