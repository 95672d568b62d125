#include "passes/Planning/ParseDump.h"

#include "dialects/Graph/Arguments.h"
#include "dialects/Graph/Nodes.h"
#include "passes/Planning/Nesting.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;

/// More than any dump has, and far less than overflows the stack.
static constexpr int mostNesting = 500;

/// Checks that all shapes are static: dumps have static shapes, and passes and verifiers rely on it.
static LogicalResult checkStatic(ModuleOp module) {
  auto isStatic = [](Value value) {
    auto type = dyn_cast<ShapedType>(value.getType());
    return !type || type.hasStaticShape();
  };
  auto checked = module.walk([&](Operation *op) {
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (Value argument : block.getArguments())
          if (!isStatic(argument))
            return op->emitError("has an argument of unknown size: ") << argument.getType(), WalkResult::interrupt();
    for (Value result : op->getResults())
      if (!isStatic(result))
        return op->emitError("has a result of unknown size: ") << result.getType(), WalkResult::interrupt();
    return WalkResult::advance();
  });
  return success(!checked.wasInterrupted());
}

static LogicalResult checkArguments(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>())
    if (failed(divisi::graph::checkArguments(function)))
      return failure();
  return success();
}

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
  auto module = parseSourceFile<ModuleOp>(sources, ParserConfig(context, /*verifyAfterParse=*/false));
  if (!module || failed(checkStatic(*module)) || failed(verify(*module)) || failed(checkArguments(*module)))
    return nullptr;
  divisi::graph::adoptNodes(*module);
  divisi::graph::nameNodes(*module);
  return module;
}
