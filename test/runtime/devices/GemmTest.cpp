#include "runtime/core/Context.h"
#include "runtime/core/Half.h"
#include "runtime/core/Team.h"
#include "runtime/devices/cpu/MatmulPlan.h"
#include "test/runtime/Util.h"

#include <atomic>
#include <chrono>
#include <sys/resource.h>
#include <thread>
#include <tuple>

using namespace divisi::runtime;
using namespace divisi::test;

namespace {
/// The sizes of one GEMM; `layout` selects strides.
struct Case {
  int64_t batch0, batch1, m, n, k;
};
enum Layout {
  Dense,       ///< one matrix after another
  Padded,      ///< rows and matrices with gaps between them
  Interleaved, ///< batch1 within the rows, like heads of attention
  SharedB,     ///< one b for all
};

/// Elements from the first to the last of an operand.
size_t extent(const DivisiGemm &g, int64_t rows, int64_t cols, int64_t ld, int64_t s0, int64_t s1) {
  return static_cast<size_t>((g.batch0 - 1) * s0 + (g.batch1 - 1) * s1 + (rows - 1) * ld + cols);
}

struct Sizes {
  int64_t aRows, aCols, bRows, bCols;
};
Sizes sizesOf(const DivisiGemm &g) {
  return {g.transpose_a ? g.k : g.m, g.transpose_a ? g.m : g.k, g.transpose_b ? g.n : g.k, g.transpose_b ? g.k : g.n};
}

DivisiGemm describe(const Case &c, bool ta, bool tb, Layout layout) {
  DivisiGemm g = {};
  g.batch0 = c.batch0, g.batch1 = c.batch1, g.m = c.m, g.n = c.n, g.k = c.k;
  g.transpose_a = ta, g.transpose_b = tb;
  auto [ar, ac, br, bc] = sizesOf(g);
  int64_t gap = layout == Padded ? 3 : 0, wide = layout == Interleaved ? c.batch1 : 1;
  g.lda = ac * wide + gap, g.ldb = bc * wide + gap, g.ldc = c.n * wide + gap;
  g.a1 = layout == Interleaved ? ac : ar * g.lda + gap, g.b1 = layout == Interleaved ? bc : br * g.ldb + gap;
  g.c1 = layout == Interleaved ? c.n : c.m * g.ldc + gap;
  g.a0 = (layout == Interleaved ? ar * g.lda : g.a1 * c.batch1) + gap;
  g.b0 = (layout == Interleaved ? br * g.ldb : g.b1 * c.batch1) + gap;
  g.c0 = (layout == Interleaved ? c.m * g.ldc : g.c1 * c.batch1) + gap;
  if (layout == SharedB)
    g.b0 = g.b1 = 0;
  return g;
}

/// The definition, in double precision.
template <typename T, typename C>
void naive(const DivisiGemm &g, const std::vector<T> &a, const std::vector<T> &b, std::vector<C> &c) {
  for (int64_t i = 0; i < g.batch0; ++i)
    for (int64_t j = 0; j < g.batch1; ++j)
      for (int64_t row = 0; row < g.m; ++row)
        for (int64_t col = 0; col < g.n; ++col) {
          double sum = 0;
          for (int64_t k = 0; k < g.k; ++k) {
            int64_t ai = g.transpose_a ? k * g.lda + row : row * g.lda + k;
            int64_t bi = g.transpose_b ? col * g.ldb + k : k * g.ldb + col;
            sum += double(a[i * g.a0 + j * g.a1 + ai]) * double(b[i * g.b0 + j * g.b1 + bi]);
          }
          C &to = c[i * g.c0 + j * g.c1 + row * g.ldc + col];
          to = static_cast<C>(g.accumulate ? double(to) + sum : sum);
        }
}

/// The result of a GEMM of random operands that some threads compute, in parts or one of them alone.
template <typename T> std::vector<T> resultOf(DivisiGemm g, int threads, SmallCalls way) {
  auto [ar, ac, br, bc] = sizesOf(g);
  auto a = randomNumbers<T>(extent(g, ar, ac, g.lda, g.a0, g.a1), 1);
  auto b = randomNumbers<T>(extent(g, br, bc, g.ldb, g.b0, g.b1), 2);
  auto c = randomNumbers<T>(extent(g, g.m, g.n, g.ldc, g.c0, g.c1), 3);
  g.type = g.result_type = sizeof(T) == sizeof(float) ? DIVISI_F32 : DIVISI_F64;
  DivisiContext context(configureThreads(threads));
  context.smallCalls = way;
  void *buffers[] = {a.data(), b.data(), c.data()};
  divisi_gemm(&context, &g, buffers);
  EXPECT_TRUE(succeeded(context.error));
  return c;
}

template <typename T> void check(DivisiGemm g, int threads, double tolerance) {
  auto [ar, ac, br, bc] = sizesOf(g);
  auto a = randomNumbers<T>(extent(g, ar, ac, g.lda, g.a0, g.a1), 1);
  auto b = randomNumbers<T>(extent(g, br, bc, g.ldb, g.b0, g.b1), 2);
  auto want = randomNumbers<T>(extent(g, g.m, g.n, g.ldc, g.c0, g.c1), 3);
  naive(g, a, b, want);
  // Also compares the gaps between the rows, which must not change.
  EXPECT_LT(worstError(resultOf<T>(g, threads, SmallCalls::inTeam), want), tolerance);
}

const Case cases[] = {{1, 1, 5, 7, 3},    {1, 1, 1, 9, 4},     {1, 1, 6, 1, 5},   {1, 1, 1, 1, 1},
                      {1, 6, 4, 3, 5},    {3, 1, 2, 8, 6},     {2, 3, 5, 4, 7},   {4, 4, 1, 6, 2},
                      {2, 8, 40, 33, 17}, {1, 1, 130, 70, 90}, {1, 3, 64, 64, 64},
                      {1, 1, 200, 130, 110}};

class Gemm : public testing::TestWithParam<std::tuple<int, int, Layout>> {};

TEST_P(Gemm, MatchesTheDefinition) {
  auto [transposes, threads, layout] = GetParam();
  for (const Case &c : cases)
    for (int accumulate : {0, 1}) {
      DivisiGemm g = describe(c, transposes & 1, transposes & 2, layout);
      g.accumulate = accumulate;
      SCOPED_TRACE(concat(c.batch0, "x", c.batch1, " of ", c.m, " ", c.n, " ", c.k, " accumulate ", accumulate));
      check<float>(g, threads, 1e-5);
      check<double>(g, threads, 1e-13);
    }
}
INSTANTIATE_TEST_SUITE_P(All, Gemm,
                         testing::Combine(testing::Values(0, 1, 2, 3), testing::Values(1, 2, 3),
                                          testing::Values(Dense, Padded, Interleaved, SharedB)));

float wideOf(uint16_t x, int64_t type) { return type == DIVISI_BF16 ? bfloatToFloat(x) : halfToFloat(x); }

/// Random numbers of a 16-bit type, and the same as floats.
std::pair<std::vector<uint16_t>, std::vector<float>> narrowNumbers(size_t count, unsigned seed, int64_t type) {
  std::pair<std::vector<uint16_t>, std::vector<float>> result{{}, randomNumbers(count, seed)};
  for (float &x : result.second) {
    result.first.push_back(type == DIVISI_BF16 ? floatToBfloat(x) : floatToHalf(x));
    x = wideOf(result.first.back(), type);
  }
  return result;
}

/// Compares a GEMM of 16-bit operands with the sum in double precision of the same numbers.
void checkNarrow(DivisiGemm g, int64_t type, bool narrowResult) {
  g.type = type, g.result_type = narrowResult ? type : int64_t(DIVISI_F32);
  auto [ar, ac, br, bc] = sizesOf(g);
  auto [an, a] = narrowNumbers(extent(g, ar, ac, g.lda, g.a0, g.a1), 1, type);
  auto [bn, b] = narrowNumbers(extent(g, br, bc, g.ldb, g.b0, g.b1), 2, type);
  auto [cn, c] = narrowNumbers(extent(g, g.m, g.n, g.ldc, g.c0, g.c1), 3, type);
  std::vector<float> got = c;
  naive(g, a, b, c);
  DivisiContext context(configureThreads(2));
  void *buffers[] = {an.data(), bn.data(), narrowResult ? static_cast<void *>(cn.data()) : got.data()};
  divisi_gemm(&context, &g, buffers);
  ASSERT_TRUE(succeeded(context.error));
  for (size_t i = 0; narrowResult && i < cn.size(); ++i)
    got[i] = wideOf(cn[i], type);
  double tolerance = !narrowResult ? 1e-5 : type == DIVISI_BF16 ? 5e-3 : 6e-4;
  EXPECT_LT(worstError(got, c), tolerance);
}

/// Narrow operands and results, by every combination of widths.
TEST(GemmTypes, NarrowOperandsAreSummedInFloat) {
  for (int64_t type : {DIVISI_BF16, DIVISI_F16})
    for (bool narrowResult : {false, true})
      for (Layout layout : {Dense, Padded, Interleaved, SharedB})
        for (int transposes = 0; transposes < 4; ++transposes)
          for (int accumulate : {0, 1})
            for (const Case &c : {Case{2, 3, 9, 8, 20}, Case{1, 1, 1, 9, 4}, Case{1, 1, 6, 1, 5}, Case{1, 1, 1, 1, 1},
                                  Case{1, 6, 40, 33, 17}, Case{1, 1, 130, 70, 90}}) {
              DivisiGemm g = describe(c, transposes & 1, transposes & 2, layout);
              g.accumulate = accumulate;
              SCOPED_TRACE(concat(type, " ", narrowResult, " ", layout, " ", transposes, " ", accumulate, " ", c.m));
              checkNarrow(g, type, narrowResult);
            }
}

/// A batch whose matrices have one result, each in its turn.
TEST(GemmTypes, NarrowMatricesOfABatchAreAddedUp) {
  DivisiGemm g = describe({1, 16, 24, 24, 24}, false, false, Dense);
  g.c0 = g.c1 = 0, g.accumulate = 1;
  checkNarrow(g, DIVISI_BF16, false);
}

/// On processors with units for bf16 the library's kernels multiply what training steps do.
TEST(GemmTypes, UnitsForBfloatsAreUsed) {
  if (!MatmulPlan::hasUnits())
    GTEST_SKIP() << "this processor has none";
  for (int transposes = 0; transposes < 4; ++transposes)
    for (int accumulate : {0, 1})
      for (int64_t result : {DIVISI_F32, DIVISI_BF16})
        for (const Case &c : {Case{1, 1, 256, 1024, 784}, Case{1, 1, 256, 10, 1024}, Case{1, 64, 128, 32, 128}}) {
          DivisiGemm g = describe(c, transposes & 1, transposes & 2, Dense);
          g.type = DIVISI_BF16, g.result_type = result, g.accumulate = accumulate;
          auto plan = MatmulPlan::create(g);
          EXPECT_TRUE(plan) << c.m << " " << c.n << " " << c.k << " " << transposes;
        }
}

TEST(GemmTypes, EmptySumsAreZeroAndEmptyResultsAreFine) {
  DivisiContext context(2);
  std::vector<float> a(1), b(1), c(6, 5.0f);
  void *buffers[] = {a.data(), b.data(), c.data()};
  DivisiGemm g = describe({1, 1, 2, 3, 0}, false, false, Dense);
  g.accumulate = 1;
  divisi_gemm(&context, &g, buffers);
  EXPECT_EQ(c, std::vector<float>(6, 5.0f));
  g.accumulate = 0;
  divisi_gemm(&context, &g, buffers);
  EXPECT_EQ(c, std::vector<float>(6, 0.0f));
  g = describe({1, 1, 0, 3, 2}, false, false, Dense);
  divisi_gemm(&context, &g, buffers);
  EXPECT_TRUE(succeeded(context.error));
}

TEST(GemmTypes, ImpossibleRequestsFailWithAMessage) {
  DivisiContext context(1);
  std::vector<float> x(64);
  void *buffers[] = {x.data(), x.data(), x.data()};
  DivisiGemm g = describe({1, 1, 4, 4, 4}, false, false, Dense);
  g.lda = 2;
  divisi_gemm(&context, &g, buffers);
  EXPECT_TRUE(failsWith(context.error, "matrix product"));
}

/// Matrices of the batch with the same result are summed in order.
TEST(GemmTypes, AccumulatesOverTheBatchWithOneResult) {
  for (Case sizes : {Case{1, 64, 24, 24, 24}, Case{1, 4, 160, 150, 100}}) {
    DivisiGemm g = describe(sizes, false, false, Dense);
    g.c0 = g.c1 = 0, g.accumulate = 1;
    check<float>(g, 2, 1e-5);
  }
}

#ifdef __x86_64__
/// Subnormal operands are zeros on every thread, as for units of bf16: on one, in parts by rows, in a team of the library, and in a batch.
/// Beside the product nothing changes.
TEST(GemmTypes, SubnormalOperandsAreZeros) {
  for (Case sizes : {Case{1, 1, 8, 8, 8}, Case{1, 1, 256, 256, 256}, Case{1, 1, 70, 70, 700}, Case{1, 6, 40, 40, 40}})
    for (int threads : {1, 2, 3}) {
      DivisiGemm g = describe(sizes, false, false, Dense);
      std::vector<float> a(sizes.batch1 * g.m * g.k, 1e-39f), b(sizes.batch1 * g.k * g.n, 1), c(sizes.batch1 * g.m * g.n, 77);
      configureThreads(threads);
      DivisiContext context(threads);
      void *buffers[] = {a.data(), b.data(), c.data()};
      divisi_gemm(&context, &g, buffers);
      ASSERT_TRUE(succeeded(context.error));
      EXPECT_EQ(c, std::vector<float>(c.size(), 0)) << sizes.m << " on " << threads;
      struct Doubled {
        volatile float x = 1e-39f;
        std::atomic<int> kept = 0;
      } doubled;
      divisi_team_run(
          threads,
          [](void *data, int, int) {
            auto *of = static_cast<Doubled *>(data);
            of->kept += of->x * 2 > 0;
          },
          &doubled);
      EXPECT_EQ(doubled.kept, threads);
    }
  DivisiGemm g = describe({1, 1, 8, 8, 8}, false, false, Dense);
  g.type = g.result_type = DIVISI_F64;
  std::vector<double> a(64, 1e-310), b(64, 1), c(64, 77);
  DivisiContext context(1);
  void *buffers[] = {a.data(), b.data(), c.data()};
  divisi_gemm(&context, &g, buffers);
  EXPECT_GT(c[0], 0); // fp64 is not for training
}
#endif

/// GEMMs are divided by rows: each sum is computed as by one thread.
TEST(GemmTypes, PartsOfAGemmHaveTheBitsOfTheWhole) {
  for (Case sizes : {Case{1, 1, 160, 137, 150}, Case{1, 1, 1100, 1029, 64}, Case{1, 1, 517, 300, 1300}, Case{1, 1, 130, 122, 520},
                     Case{1, 1, 256, 40, 403}, Case{1, 1, 295, 249, 103}})
    for (int transposes : {0, 1, 2, 3})
      for (int accumulate : {0, 1}) {
        DivisiGemm g = describe(sizes, transposes & 1, transposes & 2, Padded);
        g.accumulate = accumulate;
        const auto whole = resultOf<float>(g, 1, SmallCalls::alone);
        const auto wide = resultOf<double>(g, 1, SmallCalls::alone);
        for (auto [threads, way] : {std::pair(2, SmallCalls::alone), {2, SmallCalls::inTeam}, {3, SmallCalls::inTeam}}) {
          if (threads == 3 && sizes.m < 256)
            continue; // divided in other ways, whose sums may be others
          SCOPED_TRACE(concat(sizes.m, " ", sizes.n, " ", sizes.k, " transposes ", transposes, ", ", threads, " threads"));
          EXPECT_EQ(resultOf<float>(g, threads, way), whole);
          EXPECT_EQ(resultOf<double>(g, threads, way), wide);
        }
      }
}

/// GEMMs of few rows are divided by columns, alike on one thread and in a team: the bits do not depend on which is faster.
TEST(GemmTypes, PartsByColumnsHaveTheBitsOfATeamOnOneThread) {
  for (Case sizes : {Case{1, 1, 32, 240, 240}, Case{1, 1, 100, 217, 103}, Case{1, 1, 1, 4097, 512}, Case{1, 1, 70, 70, 700}})
    for (int transposes : {0, 1, 2, 3})
      for (int accumulate : {0, 1}) {
        DivisiGemm g = describe(sizes, transposes & 1, transposes & 2, Padded);
        g.accumulate = accumulate;
        for (int threads : {2, 3, 5}) {
          SCOPED_TRACE(concat(sizes.m, " ", sizes.n, " ", sizes.k, " transposes ", transposes, ", ", threads, " threads"));
          check<float>(g, threads, 1e-4);
          EXPECT_EQ(resultOf<float>(g, threads, SmallCalls::alone), resultOf<float>(g, threads, SmallCalls::inTeam));
          EXPECT_EQ(resultOf<double>(g, threads, SmallCalls::alone), resultOf<double>(g, threads, SmallCalls::inTeam));
        }
      }
}

/// Processor seconds of the calling thread, and of the others.
std::pair<double, double> processorTimes() {
  auto secondsOf = [](int who) {
    rusage usage = {};
    getrusage(who, &usage);
    return static_cast<double>(usage.ru_utime.tv_sec) + static_cast<double>(usage.ru_utime.tv_usec) * 1e-6;
  };
  const double own = secondsOf(RUSAGE_THREAD);
  return {own, secondsOf(RUSAGE_SELF) - own};
}

/// A small GEMM does not wake a team, a large one does, and convolutions behind both have all threads.
TEST(GemmTypes, SmallOnesStayOnOneThread) {
  for (auto [side, isSmall] : {std::pair(96, true), {300, false}}) {
    DivisiContext context(configureThreads(2));
    DivisiGemm g = describe({1, 1, side, side, side}, false, /*tb=*/true, Dense);
    g.type = g.result_type = DIVISI_F32;
    std::vector<float> a(static_cast<size_t>(side * side)), b(a), c(a);
    void *buffers[] = {a.data(), b.data(), c.data()};
    auto before = processorTimes();
    for (int tries = 0; tries < 100; ++tries) { // earlier teams fall asleep
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (const auto now = processorTimes(); std::exchange(before, now).second == now.second)
        break;
    }
    for (int64_t done = 0; done < int64_t(5e9); done += g.m * g.n * g.k)
      divisi_gemm(&context, &g, buffers);
    const auto after = processorTimes();
    const double own = after.first - before.first, others = after.second - before.second;
    ASSERT_TRUE(succeeded(context.error));
    EXPECT_EQ(others < 0.1 * own, isSmall) << others << " and " << own << " seconds";
    EXPECT_EQ(divisi_team_size(), 2);
  }
}

/// GEMMs that a library divides among threads have other sums then: which thread computes one does not depend on the time.
TEST(GemmTypes, TheBitsOfABatchDoNotDependOnTime) {
  for (Case sizes : {Case{1, 8, 400, 64, 400}, Case{1, 40, 32, 32, 33}}) {
    DivisiGemm g = describe(sizes, false, false, Dense);
    g.type = g.result_type = DIVISI_F32;
    auto [ar, ac, br, bc] = sizesOf(g);
    std::vector<float> a = randomNumbers(extent(g, ar, ac, g.lda, g.a0, g.a1), 1), b = randomNumbers(extent(g, br, bc, g.ldb, g.b0, g.b1), 2);
    std::vector<float> c(extent(g, g.m, g.n, g.ldc, g.c0, g.c1)), first;
    DivisiContext context(configureThreads(2));
    void *buffers[] = {a.data(), b.data(), c.data()};
    for (int run = 0; run < 150; ++run) {
      divisi_gemm(&context, &g, buffers);
      ASSERT_TRUE(succeeded(context.error));
      if (run == 0)
        first = c;
      ASSERT_EQ(c, first) << "in run " << run;
    }
  }
}
} // namespace
