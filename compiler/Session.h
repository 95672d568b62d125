#pragma once
#include "compiler/Diagnostics.h"
#include "compiler/Import/Import.h"
#include "compiler/Pipeline.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"

namespace divisi::compiler {

/// A model's file, and how a training step is made of it.
struct ModelRequest {
  std::string input;
  ImportOptions import;
  TrainOptions train;
  /// Whether the input is a dump, not an ONNX file.
  bool isDump() const { return llvm::StringRef(input).ends_with(".mlir"); }

  std::vector<std::string> importFlags, trainFlags; // those that were given: of an ONNX file, and of a step that is not made yet
};

/// Sets in `train` the optimizer that the training_info of a model's file names, unless flags name one. Returns its learning
/// rate if it says one. The module, of level graph, no longer has it. Fails with a diagnostic if a dump was edited to something else.
mlir::FailureOr<std::optional<double>> followTrainingInfo(mlir::ModuleOp module, const ImportOptions &flags, TrainOptions &train);

/// A model in the compiler: an ONNX file, or a dump (.mlir) of some level. Errors are printed to stderr.
class Session {
public:
  Session() : Session("", true) {}
  /// `about` begins each diagnostic's message; `warns`: what the import warns of and notes is printed, too.
  Session(const std::string &about, bool warns);
  mlir::LogicalResult read(const ModelRequest &request);
  mlir::LogicalResult run(llvm::function_ref<void(mlir::OpPassManager &)> addPasses);

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  ImportedModel model;

private:
  bool warns;
  DiagnosticPrinter diagnostics;
};

} // namespace divisi::compiler
