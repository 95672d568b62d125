#pragma once
#include "dialects/Exec/Exec.h"
#include "step/Batch.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace divisi::codegen {

/// Elementwise kernels that do not depend on each other (step/Batch.h), which a GPU may run concurrently.
class Batch {
public:
  /// Whether a kernel of a task may be added to the batch.
  bool takes(exec::KernelOp kernel) const;
  void add(exec::KernelOp kernel);
  llvm::ArrayRef<exec::KernelOp> all() const { return members; }

private:
  llvm::SmallVector<exec::KernelOp> members;
  step::Batch rule;
};

/// A kernel and those after it that are launched with it (equal `batch`).
llvm::SmallVector<exec::KernelOp> batchFrom(exec::KernelOp kernel);
/// Whether two operations are in the same batch.
bool areTogether(mlir::Operation *a, mlir::Operation *b);
/// Whether an operation is launched together with an earlier one.
bool followsInBatch(mlir::Operation *op);

/// Fails for batches of a dump that batch-kernels would not have formed.
mlir::LogicalResult checkBatches(mlir::ModuleOp module);

} // namespace divisi::codegen
