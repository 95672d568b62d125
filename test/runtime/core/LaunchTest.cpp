#include "runtime/core/Launch.h"
#include "runtime/core/Context.h"
#include "test/runtime/Util.h"

#include <atomic>
#include <mutex>
#include <set>

extern "C" { // of OpenMP
int omp_get_max_active_levels();
void omp_set_max_active_levels(int levels);
}

using namespace divisi::runtime;

namespace {
TEST(Pieces, CoverTheExtentInBalance) {
  for (int64_t extent : {1, 2, 7, 64, 1000})
    for (int64_t grain : {0, 1, 3, 64, 5000})
      for (int64_t threads : {1, 2, 5, 16}) {
        int64_t pieces = pieceCount(extent, grain, threads), end = 0, least = extent, most = 0;
        ASSERT_GE(pieces, 1);
        EXPECT_LE(pieces, threads);
        EXPECT_LE(pieces, (extent + std::max<int64_t>(grain, 1) - 1) / std::max<int64_t>(grain, 1));
        for (int64_t i = 0; i < pieces; ++i) {
          auto [from, to] = pieceOf(extent, i, pieces);
          EXPECT_EQ(from, end);
          end = to;
          least = std::min(least, to - from), most = std::max(most, to - from);
        }
        EXPECT_EQ(end, extent);
        EXPECT_LE(most - least, 1);
        EXPECT_GE(least, 1);
      }
}

std::mutex lock;
std::multiset<std::pair<int64_t, int64_t>> calls;
void record(void *const *, int64_t begin, int64_t end) {
  std::lock_guard guard(lock);
  calls.emplace(begin, end);
}

void launch(DivisiContext &context, DivisiLoop loop, void *const *buffers, int64_t extent, int64_t grain) {
  DivisiKernel kernel{"kernel", 1, loop, extent, grain, 0, 0};
  divisi_launch(&context, &kernel, buffers);
}

TEST(Launch, CallsEachPieceOnce) {
  configureThreads(3);
  DivisiContext context(3);
  calls.clear();
  launch(context, record, nullptr, 640, 10);
  EXPECT_EQ(calls, (std::multiset<std::pair<int64_t, int64_t>>{{0, 214}, {214, 427}, {427, 640}}));
  calls.clear();
  launch(context, record, nullptr, 10, 10);
  EXPECT_EQ(calls, (std::multiset<std::pair<int64_t, int64_t>>{{0, 10}}));
  calls.clear();
  launch(context, record, nullptr, 0, 1);
  EXPECT_TRUE(calls.empty());
}

/// One thread or three, whichever is faster: each element once in any case.
TEST(Launch, SmallKernelsAreComputedByWhoIsFaster) {
  configureThreads(3);
  DivisiContext context(3);
  DivisiKernel kernel{"kernel", 1, record, 10, 2, 0, 0};
  for (int run = 0; run < 200; ++run) {
    calls.clear();
    divisi_launch(&context, &kernel, nullptr);
    int64_t end = 0;
    for (auto [from, to] : calls) {
      EXPECT_EQ(from, end);
      end = to;
    }
    EXPECT_EQ(end, 10);
    EXPECT_TRUE(calls.size() == 1 || calls.size() == 3) << calls.size();
  }
  for (auto [way, pieces] : {std::pair(SmallCalls::inTeam, 3u), {SmallCalls::alone, 1u}}) { // a task has chosen
    context.smallCalls = way;
    for (int run = 0; run < 200; ++run) {
      calls.clear();
      divisi_launch(&context, &kernel, nullptr);
      EXPECT_EQ(calls.size(), pieces);
    }
  }
}

void checkSerial(void *const *buffers, int64_t, int64_t) { *static_cast<int *>(buffers[0]) = divisi_team_inside(); }

TEST(Launch, ATeamHasTheThreadsThatOpenMpGrants) {
  const int levels = omp_get_max_active_levels();
  omp_set_max_active_levels(0);
  EXPECT_EQ(configureThreads(3), 1);
  EXPECT_EQ(divisi_team_size(), 1);
  omp_set_max_active_levels(levels);
  EXPECT_EQ(configureThreads(3), 3);
}

TEST(Launch, OnePieceDoesNotFork) {
  configureThreads(4);
  DivisiContext context(4);
  int inParallel = -1;
  void *buffers[] = {&inParallel};
  launch(context, checkSerial, buffers, 100, 100);
  EXPECT_EQ(inParallel, 0);
  launch(context, checkSerial, buffers, 100, 1);
  EXPECT_EQ(inParallel, 1);
}

TEST(Context, TheFirstFailureStaysAndEndsServices) {
  DivisiContext context(1);
  context.fail("first");
  context.fail("second");
  EXPECT_EQ(context.error.message(), "first");
  calls.clear();
  launch(context, record, nullptr, 10, 1);
  EXPECT_TRUE(calls.empty());
}

TEST(Context, ExceptionsBecomeFailures) {
  DivisiContext context(1);
  guarded(&context, "service", [] { throw std::bad_alloc(); });
  EXPECT_EQ(context.error.message(), "service: std::bad_alloc");
}

TEST(Context, WantsAreBits) {
  DivisiContext context(1);
  context.wants = DIVISI_WHEN_METRICS;
  EXPECT_TRUE(divisi_wants(&context, DIVISI_WHEN_METRICS));
  EXPECT_FALSE(divisi_wants(&context, DIVISI_WHEN_GRAD_NORMS));
}
} // namespace
