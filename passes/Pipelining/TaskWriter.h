#pragma once
#include "passes/Pipelining/StepParts.h"

#include "mlir/IR/IRMapping.h"

namespace divisi::pipelining {

/// A task under construction: a function to which operations are added.
class TaskWriter {
public:
  /// Creates @`function`.`number`.`kind` before the function that is split.
  TaskWriter(mlir::func::FuncOp function, int number, mlir::StringRef kind, mlir::DictionaryAttr attributes);

  mlir::Block &block() { return task.getBody().front(); }
  /// Adds a copy of an argument of the function, once, with its attributes except the stage. It stands for the argument
  /// until `mapping` says something else.
  mlir::Value takeArgument(mlir::BlockArgument argument);
  /// Adds an int64 scalar argument of this name, once.
  mlir::Value takeScalar(llvm::StringRef name, mlir::Location loc);
  /// Adds a dist.held argument: the value that another task of the device, or the microbatch before, left under this
  /// name.
  mlir::Value takeHeld(mlir::Type type, mlir::StringRef name, mlir::StringRef kind, mlir::Location loc);
  /// Leaves a value under a name. `when`: only in the steps in which it is computed on demand (graph::When); 0: always.
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
  llvm::StringMap<mlir::Value> scalars;
  llvm::DenseMap<mlir::Value, mlir::Value> copies; // of arguments
};

} // namespace divisi::pipelining
