#pragma once
#include "dialects/Exec/Exec.h"

namespace divisi::codegen {

/// Stages of a kernel that share one loop nest within a row.
struct Cluster {
  enum class Kind {
    pass,                // pointwise stages, and reductions of the whole row to one element
    accumulateInMemory,  // a dimension that is kept is innermost: partial results lie in the result's memory
    accumulatePerResult, // reduced dimensions are innermost, others are kept
  };
  Kind kind = Kind::pass;
  llvm::SmallVector<mlir::Operation *> stages;
  llvm::SmallVector<int64_t> extents; // of the loops within a row
  int64_t points = 1;                 // their product
};

/// The number of leading dimensions whose product is `rows`.
int64_t leadingRank(llvm::ArrayRef<int64_t> shape, int64_t rows);

/// The extents of a cluster's loops within a row that are kept, and those that are reduced.
struct KeptAndReduced {
  llvm::SmallVector<int64_t> kept, reduced;
  int64_t keptPoints = 1, reducedPoints = 1;
};
KeptAndReduced keptAndReduced(const Cluster &cluster, int64_t rows);

/// Puts consecutive stages with equal loops into one cluster where each reads the others only at its own point.
llvm::SmallVector<Cluster> formClusters(exec::KernelOp kernel);

} // namespace divisi::codegen
