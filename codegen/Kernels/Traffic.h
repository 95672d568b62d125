#pragma once
#include "codegen/Kernels/FusionPlan.h"

#include "llvm/ADT/SetVector.h"

namespace divisi::codegen {

/// Shared memory that the kept values of a block's rows may take on a GPU: every block has 48 KiB, and the sums of
/// warps lie there, too.
inline constexpr int64_t sharedBytes = 47 * 1024;

/// What kernels on GPUs compute again, because memory is what they wait for: a value that a kernel stores for others is
/// replaced, in these, by its computation from what they read anyway or what is smaller, if the bytes become fewer.
class Traffic {
public:
  explicit Traffic(FusionPlan &plan);

  /// Rewrites readers of values that need not be stored; says whether there were any.
  bool recomputeAcross();
  /// Marks what rows too long for shared memory would keep; says whether there is any.
  bool recomputeWithin();

private:
  using Leaves = llvm::SetVector<mlir::Value>;
  /// A stage that reads a value of another kernel.
  struct Reader {
    mlir::Operation *stage;
    int kernel;
  };
  /// What was copied for one kernel, by the original.
  using Copies = llvm::DenseMap<mlir::Operation *, mlir::Operation *>;

  bool mustStay(mlir::Operation *stage) const;
  bool isLeaf(mlir::Value value, int kernel) const;
  bool collectLeaves(mlir::Operation *op, int kernel, Leaves &leaves, llvm::SmallPtrSetImpl<mlir::Operation *> &inside);
  bool pays(mlir::Operation *op, llvm::ArrayRef<Reader> readers);
  bool readsThrough(mlir::Operation *op, mlir::Operation *old) const;
  mlir::Value copy(mlir::Operation *op, const Reader &reader);
  void replaceIn(mlir::Operation *op, mlir::Operation *old, const Reader &reader);
  void eraseUnused();

  FusionPlan &plan;
  llvm::SmallVector<llvm::DenseSet<mlir::Value>> reads; // by kernel: values of others
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<Reader>> readersOf;
  llvm::SmallVector<Copies> copies; // by kernel
};

} // namespace divisi::codegen
