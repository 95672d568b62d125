#include "dialects/Exec/ArenaLayout.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

using namespace divisi::exec;

namespace {

using Buffers = std::vector<BufferLife>;
constexpr int64_t alignment = 64;

int64_t aligned(int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

bool liveTogether(const BufferLife &a, const BufferLife &b) { return a.first <= b.last && b.first <= a.last; }

/// A problem with up to `most` buffers, which depends only on the seed.
Buffers randomBuffers(unsigned seed, int most) {
  std::mt19937 random(seed);
  auto below = [&](int n) { return (int64_t)(random() % n); };
  Buffers buffers(1 + below(most));
  for (BufferLife &buffer : buffers) {
    int64_t first = below(12);
    buffer = {below(10) * 40, first, first + below(6)};
  }
  return buffers;
}

/// Places every buffer at the lowest free offset, in the given order.
int64_t bytesInOrder(const Buffers &buffers, const std::vector<size_t> &order) {
  std::vector<std::pair<int64_t, size_t>> placed; // by offset
  int64_t bytes = 0;
  for (size_t i : order) {
    int64_t offset = 0;
    for (auto [start, j] : placed)
      if (liveTogether(buffers[i], buffers[j]) && start < offset + aligned(buffers[i].bytes))
        offset = std::max(offset, start + aligned(buffers[j].bytes));
    placed.insert(std::upper_bound(placed.begin(), placed.end(), std::pair(offset, i)), {offset, i});
    bytes = std::max(bytes, offset + aligned(buffers[i].bytes));
  }
  return bytes;
}

/// The smallest arena. If the buffers of a best layout are placed by increasing offset, each at its lowest free offset,
/// none gets a higher offset than it had. Therefore some order gives the best layout.
int64_t smallestBytes(const Buffers &buffers) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  int64_t best = bytesInOrder(buffers, order);
  while (std::next_permutation(order.begin(), order.end()))
    best = std::min(best, bytesInOrder(buffers, order));
  return best;
}

TEST(ArenaLayout, KeepsBuffersThatAreInUseTogetherApart) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    Buffers buffers = randomBuffers(seed, 40);
    ArenaLayout layout = ArenaLayout::plan(buffers, alignment);
    ASSERT_EQ(layout.offsets.size(), buffers.size());
    for (size_t i = 0; i < buffers.size(); ++i) {
      EXPECT_GE(layout.offsets[i], 0);
      EXPECT_EQ(layout.offsets[i] % alignment, 0);
      EXPECT_LE(layout.offsets[i] + buffers[i].bytes, layout.bytes);
      for (size_t j = 0; j < i; ++j)
        if (buffers[i].bytes && buffers[j].bytes && liveTogether(buffers[i], buffers[j])) {
          EXPECT_TRUE(layout.offsets[i] + buffers[i].bytes <= layout.offsets[j] ||
                      layout.offsets[j] + buffers[j].bytes <= layout.offsets[i])
              << "buffers " << i << " and " << j;
        }
    }
    EXPECT_GE(layout.bytes, peakBytes(buffers, alignment));
  }
}

TEST(ArenaLayout, PeakIsTheMostInUseAtAnyStep) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    Buffers buffers = randomBuffers(seed, 40);
    int64_t peak = 0;
    for (int64_t step = 0; step < 20; ++step) {
      int64_t now = 0;
      for (const BufferLife &buffer : buffers)
        if (buffer.first <= step && step <= buffer.last)
          now += aligned(buffer.bytes);
      peak = std::max(peak, now);
    }
    EXPECT_EQ(peakBytes(buffers, alignment), peak);
  }
}

TEST(ArenaLayout, IsNearlyAlwaysTheSmallest) {
  int best = 0, problems = 400;
  int64_t used = 0, needed = 0;
  for (int seed = 0; seed < problems; ++seed) {
    SCOPED_TRACE(seed);
    Buffers buffers = randomBuffers(seed, 6);
    int64_t bytes = ArenaLayout::plan(buffers, alignment).bytes, smallest = smallestBytes(buffers);
    ASSERT_GE(smallest, peakBytes(buffers, alignment));
    ASSERT_GE(bytes, smallest);
    best += bytes == smallest;
    used += bytes;
    needed += smallest;
  }
  EXPECT_GE(best, problems * 97 / 100);
  EXPECT_LE(used, needed * 1.01);
}

TEST(ArenaLayout, ReusesTheMemoryOfTheDead) {
  ArenaLayout layout = ArenaLayout::plan({{100, 0, 1}, {100, 2, 3}, {60, 1, 2}}, alignment);
  EXPECT_EQ(layout.offsets, (std::vector<int64_t>{0, 0, 128}));
  EXPECT_EQ(layout.bytes, 192);
}

TEST(ArenaLayout, AlignsABufferAsItAsks) {
  ArenaLayout layout = ArenaLayout::plan({{300, 0, 1}, {200, 0, 1, 256}, {100, 0, 1}, {60, 2, 3, 256}}, alignment);
  EXPECT_EQ(layout.offsets, (std::vector<int64_t>{0, 512, 320, 0})); // 320 to 448 fits before the aligned one
  EXPECT_EQ(layout.bytes, 512 + 256);
}

TEST(ArenaLayout, TakesNoneAndEmptyOnes) {
  EXPECT_EQ(ArenaLayout::plan({}, alignment).bytes, 0);
  EXPECT_EQ(peakBytes({}, alignment), 0);
  EXPECT_EQ(ArenaLayout::plan({{0, 0, 5}, {64, 2, 3}}, alignment).bytes, 64);
}

} // namespace
