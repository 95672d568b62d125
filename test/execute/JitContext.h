#pragma once
#include "compiler/Jit.h"
#include "compiler/Pipeline.h"
#include "test/execute/GradientSamples.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

namespace divisi::test {

/// A context of one thread with all dialects of the compiler, for tests that compile functions into their process.
struct JitContext : mlir::MLIRContext {
  JitContext() : MLIRContext(registry(), Threading::DISABLED) { loadAllAvailableDialects(); }

  /// Compiles @forward of a text; with `gradients` also the gradients of the loss, and with `producers` before its
  /// arguments. `look` is called with the module at the level exec, whose kernels may be for GPUs.
  llvm::Expected<std::unique_ptr<compiler::JitFunction>>
  compile(const std::string &text, bool gradients, llvm::function_ref<void(mlir::ModuleOp)> look = nullptr,
          bool forGpu = false, bool producers = false) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, this);
    if (!module)
      return llvm::createStringError("does not parse: " + text);
    if (producers)
      addProducers(module->lookupSymbol<mlir::func::FuncOp>("forward"));
    if (gradients)
      addGradients(module->lookupSymbol<mlir::func::FuncOp>("forward"));
    return compiler::JitFunction::compile(*module, look, forGpu);
  }

private:
  static mlir::DialectRegistry registry() {
    mlir::DialectRegistry result;
    compiler::registerAll(result);
    return result;
  }
};

} // namespace divisi::test
