#pragma once
#include "codegen/Kernels/RowSets.h"
#include "step/Fusion.h"

namespace divisi::codegen {

/// A straight-line block of simple graph operations and its fusion (step/Fusion.h): copies of what is recomputed stand
/// in the block.
class FusedBlock {
public:
  struct Kernel {
    llvm::SmallVector<mlir::Operation *> stages; // in block order
    RowSet rows;
    bool serial = false;
    int64_t when = 0; // 0: always, else DivisiWhen bits
  };

  FusedBlock(mlir::Block &block, bool forGpu);

  llvm::ArrayRef<Kernel> getKernels() const { return kernels; }
  bool isStage(mlir::Operation *op) const { return stages.contains(op); }
  /// 0 if the operation is always needed, else the bits of those who look at it.
  int64_t getWhen(mlir::Operation *op) const { return when.lookup(op); }

private:
  llvm::SmallVector<Kernel> kernels;
  llvm::DenseSet<mlir::Operation *> stages;
  llvm::DenseMap<mlir::Operation *, int64_t> when;
};

} // namespace divisi::codegen
