#include "passes/Planning/ParseDump.h"

#include "passes/Planning/Nesting.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"

#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;

/// More than any dump has, and far less than a stack holds.
static constexpr int mostNesting = 500;

OwningOpRef<ModuleOp> divisi::parseDump(const std::string &file, MLIRContext *context) {
  auto buffer = llvm::MemoryBuffer::getFileOrSTDIN(file);
  if (!buffer) {
    emitError(UnknownLoc::get(context)) << "could not open input file '" << file << "': " << buffer.getError().message();
    return nullptr;
  }
  if (nestsTooDeep((*buffer)->getBuffer(), mostNesting)) {
    emitError(UnknownLoc::get(context)) << "'" << file << "' nests too deep";
    return nullptr;
  }
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(*buffer), llvm::SMLoc());
  return parseSourceFile<ModuleOp>(sources, context);
}
