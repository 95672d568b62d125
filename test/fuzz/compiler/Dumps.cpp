#include "test/fuzz/compiler/Dumps.h"

#include "dialects/Dist/Dist.h"
#include "dialects/Exec/Exec.h"
#include "dialects/Graph/Graph.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <cstdlib>
#include <memory>

using namespace divisi;
using namespace mlir;

MLIRContext &fuzz::context() {
  constexpr int most = 500;
  static std::unique_ptr<MLIRContext> current;
  static int inputs = 0;
  if (current && ++inputs % most)
    return *current;
  DialectRegistry registry; // those of compiler::registerAll
  registry.insert<graph::GraphDialect, dist::DistDialect, exec::ExecDialect, func::FuncDialect, arith::ArithDialect, math::MathDialect,
                  scf::SCFDialect, memref::MemRefDialect, cf::ControlFlowDialect, LLVM::LLVMDialect>();
  current.reset();
  current = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  current->loadAllAvailableDialects();
  current->printOpOnDiagnostic(false);
  return *current;
}

fuzz::Heard::Heard(MLIRContext &context)
    : handler(&context, [this](Diagnostic &diagnostic) {
        static const bool tells = std::getenv("DIVISI_FUZZ_TELLS");
        std::string text = diagnostic.str();
        if (tells)
          llvm::errs() << text << "\n";
        error |= diagnostic.getSeverity() == DiagnosticSeverity::Error;
        return success();
      }) {}

void fuzz::Heard::expectError(bool failed) const {
  if (error != failed) {
    llvm::errs() << (failed ? "refused without an error\n" : "accepted with an error\n");
    std::abort();
  }
}
