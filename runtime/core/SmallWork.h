//===- SmallWork.h - work that a team may not make faster --------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_SMALLWORK_H
#define DIVISI_RUNTIME_CORE_SMALLWORK_H

#include "runtime/core/Context.h"
#include "runtime/core/Launch.h"

namespace divisi::runtime {

/// How long a team stays awake, in nanoseconds; its threads spin somewhat longer (runtime/main/Spinning.cpp).
constexpr int64_t awakeFor = 20000;

/// Behind work of the caller alone: the team of a task that runs all in a team does not fall asleep.
inline void keepAwake(DivisiContext *context) {
  if (context->smallCalls == SmallCalls::inTeam && context->threads > 1 && !divisi_team_inside())
    divisi_team_run(context->threads, [](void *, int, int) {}, nullptr);
}

/// forEachPiece, but for work of less than `mostSmall` grains by the caller alone where that is faster. This changes no
/// number if no piece depends on another one. `site` is the address of what the call is known by; its kind keeps it apart
/// from other entries of the context's cache.
template <typename Body>
void forEachPieceIfFaster(DivisiContext *context, int kind, const void *site, int64_t extent, int64_t grain, const Body &body) {
  constexpr int64_t mostSmall = 64;
  const int64_t grains = pieceCount(extent, grain, mostSmall);
  if (context->threads == 1 || grains <= 1 || grains == mostSmall || divisi_team_inside())
    return forEachPiece(extent, grain, context->threads, body);
  struct Site : CacheEntry, Teamwork {};
  auto &entry = context->cache[{kind, site}];
  if (!entry)
    entry = std::make_unique<Site>();
  auto &teamwork = static_cast<Site &>(*entry);
  const int64_t begin = divisi_team_now();
  const auto team = begin - divisi_team_end() < awakeFor ? Teamwork::awake : Teamwork::asleep;
  const auto way = context->smallCalls == SmallCalls::alone    ? Teamwork::alone
                   : context->smallCalls == SmallCalls::inTeam ? team
                                                               : teamwork.choose(team);
  if (way == Teamwork::alone)
    body(int64_t(0), extent);
  else
    forEachPiece(extent, grain, context->threads, body);
  teamwork.note(way, static_cast<double>(divisi_team_now() - begin));
}

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_SMALLWORK_H
