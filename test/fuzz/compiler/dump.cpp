// Dumps of every level. What is accepted and printed is accepted again.
#include "passes/Planning/ParseDump.h"
#include "test/fuzz/compiler/Dumps.h"
#include "test/fuzz/compiler/Tokens.h"

#include <cstdlib>

using namespace divisi;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mlir::MLIRContext &context = fuzz::context();
  std::string printed;
  {
    fuzz::Heard heard(context);
    auto module = parseDump(fuzz::fileOf(fuzz::text(data, size)), &context);
    heard.expectError(!module);
    if (!module)
      return 0;
    llvm::raw_string_ostream out(printed);
    module->print(out);
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
