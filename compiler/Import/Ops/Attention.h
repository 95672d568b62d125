#pragma once
#include "compiler/Import/NodeImporter.h"

namespace divisi::compiler {

// Heads of attention are dimension 1: [batch, heads, length, size].

/// The heads of [batch, length, heads * size]; fails where they do not divide it.
mlir::Value splitHeads(NodeImporter &n, mlir::Value x, int64_t heads);
/// [batch, length, heads * size] of heads.
mlir::Value mergeHeads(NodeImporter &n, mlir::Value x);
/// Repeats heads of keys or values so that there are `heads`: each serves a group of query heads.
mlir::Value repeatHeads(NodeImporter &n, mlir::Value x, int64_t heads);

/// Rotary position embedding (Su et al., arXiv 2104.09864) of the first `size` components of heads, which are pairs of
/// neighbours (`interleaved`) or of both halves. `cosine` and `sine`: [batch, 1, length, size / 2], where batch may be 1.
mlir::Value rotated(NodeImporter &n, mlir::Value x, mlir::Value cosine, mlir::Value sine, int64_t size,
                    bool interleaved);

} // namespace divisi::compiler
