#pragma once
#include <cstdint>
#include <vector>

namespace divisi::exec {

/// The live range of a buffer: from step `first` to step `last`, both included.
struct BufferLife {
  int64_t bytes;
  int64_t first, last;
  int64_t alignment = 1; ///< if it is more than that of all buffers
};

/// Offsets for buffers, multiples of `alignment` and of each buffer's own, such that buffers whose live ranges intersect do not overlap. Greedy:
/// the largest buffer first, each at the lowest free offset (Pisarchyk and Lee, arXiv 2001.03288, algorithm 3).
/// Deterministic, and optimal in nearly all practical cases.
struct ArenaLayout {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;

  static ArenaLayout plan(const std::vector<BufferLife> &buffers, int64_t alignment);
};

/// The most live bytes at any step: a lower bound on every layout.
int64_t peakBytes(const std::vector<BufferLife> &buffers, int64_t alignment);

} // namespace divisi::exec
