#pragma once
#include "dialects/Exec/Exec.h"

namespace divisi::codegen {

/// Materialized values of a kernel (operations with `exec.stage`) that share one loop nest within a row.
struct Cluster {
  enum class Kind {
    pass,                // pointwise values, and reductions of the whole row to one element
    accumulateInMemory,  // a dimension that is kept is innermost: partial results are in the result's memory
    accumulatePerResult, // reduced dimensions are innermost, and some dimensions are kept
  };
  Kind kind = Kind::pass;
  llvm::SmallVector<mlir::Operation *> stages;
  llvm::SmallVector<int64_t> extents; // of the loops within a row
  int64_t points = 1;                 // their product
};

/// The number of leading dimensions whose product is `rows`.
int64_t leadingRank(llvm::ArrayRef<int64_t> shape, int64_t rows);

/// The extents of a cluster's loops within a row: those of kept and those of reduced dimensions.
struct KeptAndReduced {
  llvm::SmallVector<int64_t> kept, reduced;
  int64_t keptPoints = 1, reducedPoints = 1;
};
KeptAndReduced keptAndReduced(const Cluster &cluster, int64_t rows);

/// Groups consecutive materialized values with equal loops into clusters, as long as each reads the others only at its
/// own point.
llvm::SmallVector<Cluster> formClusters(exec::KernelOp kernel);

} // namespace divisi::codegen
