//===- Launch.h - work split over the pool ----------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_LAUNCH_H
#define DIVISI_RUNTIME_CORE_LAUNCH_H

#include <algorithm>
#include <cstdint>
#include <omp.h>
#include <utility>

namespace divisi::runtime {

/// How many pieces [0, extent) is worth: each has `grain` elements or more, and no thread has two.
inline int64_t pieceCount(int64_t extent, int64_t grain, int64_t threads) {
  grain = std::max<int64_t>(grain, 1);
  return std::min(threads, extent / grain + (extent % grain != 0));
}

/// Piece `index` of `pieces` contiguous ones whose sizes differ by one at most.
inline std::pair<int64_t, int64_t> pieceOf(int64_t extent, int64_t index, int64_t pieces) {
  int64_t size = extent / pieces, longer = extent % pieces;
  int64_t begin = index * size + std::min(index, longer);
  return {begin, begin + size + (index < longer ? 1 : 0)};
}

/// Calls body(begin, end) for every piece of [0, extent). The split depends on the arguments alone. A body must not
/// throw. All threads of the pool take part even if there are fewer pieces: libgomp ends the threads that a smaller
/// team leaves over and starts them again for the next larger one.
template <typename Body> void forEachPiece(int64_t extent, int64_t grain, int threads, const Body &body) {
  if (extent <= 0)
    return;
  int64_t pieces = omp_in_parallel() ? 1 : pieceCount(extent, grain, threads);
  if (pieces <= 1)
    return body(int64_t(0), extent);
#pragma omp parallel num_threads(threads)
  for (int64_t index = omp_get_thread_num(); index < pieces; index += omp_get_num_threads()) {
    auto [begin, end] = pieceOf(extent, index, pieces);
    body(begin, end);
  }
}

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_LAUNCH_H
