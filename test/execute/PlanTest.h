#pragma once
#include "compiler/Pipeline.h"
#include "test/execute/Devices.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

namespace divisi::test {

/// Runs pipelines on modules; diagnostics are in `messages`.
class PlanTest : public testing::Test {
protected:
  PlanTest()
      : context(registry(), mlir::MLIRContext::Threading::DISABLED), handler(&context, [this](mlir::Diagnostic &d) {
          llvm::raw_string_ostream(messages) << d.getLocation() << ": " << d << "\n";
          for (mlir::Diagnostic &note : d.getNotes())
            llvm::raw_string_ostream(messages) << "  " << note << "\n";
        }) {
    context.loadAllAvailableDialects();
  }
  static mlir::DialectRegistry registry() {
    mlir::DialectRegistry result;
    compiler::registerAll(result);
    return result;
  }

  template <typename Fill> bool runPasses(mlir::ModuleOp module, Fill fill) {
    mlir::PassManager pm(&context);
    fill(pm);
    return succeeded(pm.run(module));
  }

  std::unique_ptr<compiler::JitProgram> compile(mlir::ModuleOp module) {
    auto program = compiler::JitProgram::compile(module);
    if (program)
      return std::move(*program);
    messages += llvm::toString(program.takeError());
    return nullptr;
  }

  /// The mesh that a module is planned on.
  static dist::Mesh meshOf(mlir::ModuleOp module) {
    for (auto function : module.getOps<mlir::func::FuncOp>())
      if (auto mesh = dist::meshOf(function))
        return dist::toMesh(mesh);
    return {};
  }
  /// The number of failures of this test so far.
  static int failures() { return testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count(); }

  mlir::MLIRContext context;
  std::string messages;
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace divisi::test
