#pragma once
#include "passes/Pipelining/StepParts.h"

#include "mlir/IR/IRMapping.h"

namespace divisi::pipelining {

/// One task in the making: a function that grows operation by operation.
class TaskWriter {
public:
  /// @`function`.`number`.`kind`, before the function that is split.
  TaskWriter(mlir::func::FuncOp function, int number, mlir::StringRef kind, mlir::DictionaryAttr attributes);

  mlir::Block &block() { return task.getBody().front(); }
  /// A copy of an argument of the function, with its attributes but the stage.
  mlir::Value takeArgument(mlir::BlockArgument argument);
  /// What another task of the place, or the microbatch before, left under this name.
  mlir::Value takeHeld(mlir::Type type, mlir::StringRef name, mlir::StringRef kind, mlir::Location loc);
  /// Leaves a value under a name; `when`: wanted only in such steps (graph::When), 0: always.
  void leaveHeld(mlir::Value value, mlir::StringRef name, mlir::StringRef kind, int64_t when);
  void addResult(mlir::Value value, mlir::DictionaryAttr attributes);
  bool isEmpty() { return values.empty() && block().empty(); }
  /// Writes the signature and the return.
  void finish();

  mlir::func::FuncOp task;
  mlir::IRMapping mapping; // values of the function to those of the task

private:
  mlir::DictionaryAttr heldAs(mlir::StringRef name, mlir::StringRef kind, int64_t when);
  llvm::SmallVector<mlir::DictionaryAttr> arguments, results;
  llvm::SmallVector<mlir::Value> values;
};

} // namespace divisi::pipelining
