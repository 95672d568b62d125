#pragma once
#include "codegen/Emit/Clusters.h"

namespace divisi::codegen {

/// How the threads of a GPU share a kernel's work: each group of threads computes one piece.
struct GpuMapping {
  enum class Kind {
    elements, // a piece consists of consecutive elements of one loop nest without a reduction
    rows,     // a piece is a row; its clusters run one after another
    results,  // a piece is one result of reductions, whose points its threads share, or some consecutive ones of a
              // thread
    columns,  // a piece consists of consecutive results; pieces lie side by side in a block, whose parts share the
              // points
    serial,   // a piece is an index of a serial operation's parallel extent
    scatter,  // a block adds to some rows of a table, each group to every perBlock-th of them (ScatterRows.h)
  };
  Kind kind = Kind::rows;
  int64_t count = 1;    // pieces
  int64_t group = 1;    // threads of a group: 1, some of a warp, a warp or a block; of columns those of a piece
  int64_t perBlock = 1; // groups of a block
  int64_t each = 1;     // consecutive elements that a thread computes together
  int64_t apart = 1;    // of elements: pieces of a thread, at the same place of rows that lie apart
  int64_t run = 0;      // of results: the number of points that are consecutive elements, if `each` does not divide it
  bool scratch = false; // temporaries exceed shared memory: they are in global memory, and blocks take rows in turn
  int64_t parts = 1;    // of a scatter: blocks that share a table's rows
  int64_t threads() const { return group * perBlock; }
  int64_t blocks() const;
};

inline constexpr int64_t warp = 32;

/// The number of consecutive elements of a row that a thread computes together, of a cluster of the kind pass: where it
/// does not divide the row, the elements at both ends are computed one by one.
int64_t elementsTogether(exec::KernelOp kernel, const Cluster &cluster, int64_t threads, bool keepsMemory);

/// The number of consecutive results of a cluster's reductions that a thread computes together, if `threads` share
/// those of a row; 1 if they are not side by side.
int64_t resultsTogether(exec::KernelOp kernel, const Cluster &cluster, int64_t threads);

/// `temporaryBytes`: memory for one row of the values that are neither inputs nor outputs of the kernel.
GpuMapping mapKernel(exec::KernelOp kernel, llvm::ArrayRef<Cluster> clusters, int64_t temporaryBytes);
/// Mapping of an operation with a fixed order (SerialInterface).
GpuMapping mapSerial(mlir::Operation *op);

} // namespace divisi::codegen
