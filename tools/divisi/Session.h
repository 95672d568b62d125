#pragma once
#include "compiler/Import/Import.h"
#include "divisi/Diagnostics.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"

namespace divisi::tools {

/// A model in the compiler: an ONNX file, or a dump (.mlir) of some level. Errors are printed to stderr.
class Session {
public:
  Session() : Session("", true) {}
  /// `about` begins each diagnostic's message; `warns`: what the import warns of and notes is printed, too.
  Session(const std::string &about, bool warns);
  mlir::LogicalResult read(const std::string &input, const compiler::ImportOptions &options);
  mlir::LogicalResult run(llvm::function_ref<void(mlir::OpPassManager &)> addPasses);

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  compiler::ImportedModel model;

private:
  bool warns;
  DiagnosticPrinter diagnostics;
};

} // namespace divisi::tools
