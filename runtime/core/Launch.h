//===- Launch.h - dividing work among threads -------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_LAUNCH_H
#define DIVISI_RUNTIME_CORE_LAUNCH_H

#include "runtime/core/Team.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace divisi::runtime {

/// The number of pieces into which [0, extent) is divided: each has at least `grain` elements, and each thread gets at
/// most one.
inline int64_t pieceCount(int64_t extent, int64_t grain, int64_t threads) {
  grain = std::max<int64_t>(grain, 1);
  return std::min(threads, extent / grain + (extent % grain != 0));
}

/// Piece `index` of `pieces` contiguous pieces, whose sizes differ by at most one.
inline std::pair<int64_t, int64_t> pieceOf(int64_t extent, int64_t index, int64_t pieces) {
  int64_t size = extent / pieces, longer = extent % pieces;
  int64_t begin = index * size + std::min(index, longer);
  return {begin, begin + size + (index < longer ? 1 : 0)};
}

/// Calls body(begin, end) for every piece of [0, extent) (work that is small: SmallWork.h). The division depends on the arguments only. A body must not
/// throw. All threads of the pool take part even if there are fewer pieces, because libgomp would end the threads that
/// a smaller team does not use and restart them for the next larger one.
template <typename Body> void forEachPiece(int64_t extent, int64_t grain, int threads, const Body &body) {
  if (extent <= 0)
    return;
  int64_t pieces = divisi_team_inside() ? 1 : pieceCount(extent, grain, threads);
  if (pieces <= 1)
    return body(int64_t(0), extent);
  auto work = [&](int member, int members) {
    for (int64_t index = member; index < pieces; index += members) {
      auto [begin, end] = pieceOf(extent, index, pieces);
      body(begin, end);
    }
  };
  divisi_team_run(
      threads, [](void *data, int member, int members) { (*static_cast<decltype(work) *>(data))(member, members); }, &work);
}

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_LAUNCH_H
