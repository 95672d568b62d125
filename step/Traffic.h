#pragma once
#include "step/Fusion.h"

#include "llvm/ADT/SetVector.h"

namespace divisi::step {

/// Shared memory that the kept values of a block's rows may take on a GPU: every block has 48 KiB, and the sums of
/// warps lie there, too.
inline constexpr int64_t sharedBytes = 47 * 1024;

/// Reduces the memory traffic of kernels on GPUs, which are bound by bandwidth: a value that one kernel stores for
/// others is recomputed in these, from values that they read anyway or from smaller ones, if fewer bytes are moved.
class Traffic {
public:
  /// Looks at a fusion's kernels, changes its block and what it recomputes.
  Traffic(const Fusion &fusion, Block &block, llvm::DenseSet<int> &recomputed);

  /// Rewrites the readers of values that need not be stored. Returns whether there were any.
  bool recomputeAcross();
  /// Marks values for recomputation if the rows of their kernel do not fit into shared memory. Returns whether there
  /// were any.
  bool recomputeWithin();

private:
  using Leaves = llvm::SetVector<int>;         // values
  using Inside = llvm::SmallDenseSet<int, 16>; // operations
  /// A stage that reads a value of another kernel.
  struct Reader {
    int stage, kernel;
  };
  /// What was copied for one kernel, by the original.
  using Copies = llvm::DenseMap<int, int>;

  bool mustStay(int stage) const;
  bool isLeaf(int value, int kernel) const;
  bool isInlined(int op) const { return op >= 0 && block.op(op).isPointwise(); }
  bool collectLeaves(int op, int kernel, Leaves &leaves, Inside &inside) const;
  bool pays(int op, llvm::ArrayRef<Reader> readers) const;
  bool readsThrough(int op, int old) const;
  int copy(int op, const Reader &reader);
  void replaceIn(int op, int old, const Reader &reader, Copies &between);
  void eraseUnused();

  const Fusion &fusion;
  Block &block;
  llvm::DenseSet<int> &recomputed;
  llvm::SmallVector<llvm::DenseSet<int>> reads; // by kernel: values of others
  llvm::DenseMap<int, llvm::SmallVector<Reader>> readersOf;
  llvm::SmallVector<Copies> copies; // by kernel
};

} // namespace divisi::step
