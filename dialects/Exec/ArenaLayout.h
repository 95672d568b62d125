#pragma once
#include <cstdint>
#include <vector>

namespace divisi::exec {

/// A buffer that is in use from step `first` to step `last`, both included.
struct BufferLife {
  int64_t bytes;
  int64_t first, last;
};

/// Offsets for buffers such that two that are in use at the same step do not overlap. Offsets are multiples of
/// `alignment`. Greedy, largest first, each at the lowest free place (Pisarchyk and Lee, arXiv 2001.03288, algorithm
/// 3): deterministic, and optimal in nearly all practical cases.
struct ArenaLayout {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;

  static ArenaLayout plan(const std::vector<BufferLife> &buffers, int64_t alignment);
};

/// The most bytes in use at any step: no layout can be smaller.
int64_t peakBytes(const std::vector<BufferLife> &buffers, int64_t alignment);

} // namespace divisi::exec
