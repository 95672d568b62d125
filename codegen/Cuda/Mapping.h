#pragma once
#include "codegen/Emit/Clusters.h"

namespace divisi::codegen {

/// How the threads of a GPU share a kernel's work: groups of threads, each with one piece.
struct GpuMapping {
  enum class Kind {
    elements, // a piece is some consecutive elements of one loop nest without a reduction
    rows,     // a piece is a row, whose clusters run one after the other
    results,  // a piece is one result of one reduction
    serial,   // a piece is an index that a serial operation's order does not touch, or some rows of that
  };
  Kind kind = Kind::rows;
  int64_t count = 1;    // pieces
  int64_t group = 1;    // threads of a piece: 1, a warp, or a whole block
  int64_t perBlock = 1; // groups of a block
  int64_t each = 1;     // consecutive elements of a piece
  bool scratch = false; // temporaries do not fit shared memory: they lie in global memory, and blocks take rows in turn
  int64_t threads() const { return group * perBlock; }
  int64_t blocks() const;
};

inline constexpr int64_t warp = 32;

/// `temporaryBytes`: of what the kernel keeps of one row besides its inputs and outputs.
GpuMapping mapKernel(exec::KernelOp kernel, llvm::ArrayRef<Cluster> clusters, int64_t temporaryBytes);
/// Of an operation in a fixed order (SerialInterface): its parallel extent times a number of parts of its rows.
GpuMapping mapSerial(int64_t extent, int64_t rows);

} // namespace divisi::codegen
