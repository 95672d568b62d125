#pragma once
#include "dialects/Exec/Exec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace divisi::codegen {

/// Kernels of single elements that do not need each other, which a GPU may run at once, in any order.
class Batch {
public:
  /// Whether a kernel of a task may run beside those that are here.
  bool takes(exec::KernelOp kernel) const;
  void add(exec::KernelOp kernel);
  llvm::ArrayRef<exec::KernelOp> all() const { return members; }

private:
  llvm::SmallVector<exec::KernelOp> members;
  llvm::DenseSet<mlir::Value> made, read; // tensors: results, and inputs of more than one element
  size_t buffers = 0;
};

/// A kernel, and those behind it that are launched with it (`batch`).
llvm::SmallVector<exec::KernelOp> batchFrom(exec::KernelOp kernel);
/// Whether two operations are launched at once.
bool areTogether(mlir::Operation *a, mlir::Operation *b);
/// Whether an operation is launched with one before it.
bool followsInBatch(mlir::Operation *op);

/// Refuses batches that batch-kernels would not have made, of a dump.
mlir::LogicalResult checkBatches(mlir::ModuleOp module);

} // namespace divisi::codegen
