// Branches, barriers and shuffles.
#include "test/gpu/ptx/Lanes.h"

#include <map>

using namespace divisi::test::ptx;

void divisi::test::ptx::branch(Warp &warp, const Code &code) { warp.branch(code.targets[0], code.meet); }

void divisi::test::ptx::branchByIndex(Warp &warp, const Code &code) {
  const auto *index = warp.at<uint32_t>(code.a);
  std::map<uint32_t, uint32_t> masks;
  for (unsigned i = 0; i < warpSize; ++i)
    if (warp.active >> i & 1) {
      if (index[i] >= code.targets.size())
        throw Fault(i, "no target " + std::to_string(index[i]));
      masks[code.targets[index[i]]] |= 1u << i;
    }
  std::vector<Path> paths;
  for (auto [target, mask] : masks)
    paths.push_back({target, code.meet, mask});
  if (paths.size() == 1)
    warp.jump(paths[0].pc);
  else
    warp.diverge(paths, code.meet);
}

void divisi::test::ptx::endThread(Warp &warp, const Code &) { warp.exit(); }
void divisi::test::ptx::passEnd(Warp &warp, const Code &) { throw Fault(firstOf(warp.active), "there is no ret"); }

void divisi::test::ptx::barrier(Warp &warp, const Code &) {
  warp.requireTogether(allLanes, "a barrier");
  warp.stopped = true;
}

void divisi::test::ptx::warpBarrier(Warp &warp, const Code &code) {
  warp.requireTogether(warp.at<uint32_t>(code.a)[firstOf(warp.active)], "a barrier of the warp");
  ++warp.epoch.warp;
}

namespace {
enum class Mode { butterfly, down, up, index };

/// c has the bits of a lane's number that name its segment, and the last lane there (with up: the first one). Lanes
/// read their own number where another one would be beyond it.
template <Mode mode> void shuffle(Warp &warp, const Code &code) {
  warp.requireTogether(warp.at<uint32_t>(code.parts[0])[firstOf(warp.active)], "a shuffle");
  const auto *a = warp.at<uint32_t>(code.a), *b = warp.at<uint32_t>(code.b), *c = warp.at<uint32_t>(code.c);
  uint32_t results[warpSize];
  for (unsigned i = 0; i < warpSize; ++i) {
    uint32_t segment = c[i] >> 8 & 31, last = (i & segment) | (c[i] & 31 & ~segment), by = b[i] & 31;
    uint32_t source = mode == Mode::butterfly ? i ^ by
                      : mode == Mode::down    ? i + by
                      : mode == Mode::up      ? i - by
                                              : (i & segment) | (by & ~segment);
    if (mode == Mode::up ? (int32_t)source < (int32_t)last : source > last)
      source = i;
    if (warp.active >> i & 1 && !(warp.active >> source & 1))
      throw Fault(i, "reads from thread " + std::to_string(warp.firstThread() + source) + ", which does not take part");
    results[i] = a[source];
  }
  store(warp, code.d, results);
}
} // namespace

Run divisi::test::ptx::shuffleOf(const std::string &mode) {
  static const std::map<std::string, Run> modes = {{"bfly", shuffle<Mode::butterfly>},
                                                   {"down", shuffle<Mode::down>},
                                                   {"up", shuffle<Mode::up>},
                                                   {"idx", shuffle<Mode::index>}};
  auto it = modes.find(mode);
  return it == modes.end() ? nullptr : it->second;
}
