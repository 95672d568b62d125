// The most bytes at once, by hand and by adding up every position.
#include "step/Liveness.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <random>

using divisi::step::Liveness;

TEST(Liveness, BothEndsAreIncluded) {
  Liveness bytes(4);
  bytes.add(0, 1, 10);
  bytes.add(1, 2, 5);
  bytes.add(2, 3, 7);
  EXPECT_EQ(bytes.peak().bytes, 15);
  EXPECT_EQ(bytes.peak().at, 1);
}

TEST(Liveness, NothingLives) {
  EXPECT_EQ(Liveness(3).peak().bytes, 0);
  EXPECT_EQ(Liveness(3).peak().at, -1);
}

TEST(Liveness, ThePeakIsTheFirstLargestSum) {
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    const int positions = 1 + random() % 20;
    Liveness bytes(positions);
    std::vector<double> sums(positions);
    for (int n = random() % 30; n > 0; --n) {
      int first = random() % positions, last = first + random() % (positions - first), size = 1 + random() % 100;
      bytes.add(first, last, size);
      for (int i = first; i <= last; ++i)
        sums[i] += size;
    }
    auto most = std::max_element(sums.begin(), sums.end());
    EXPECT_EQ(bytes.peak().bytes, *most);
    EXPECT_EQ(bytes.peak().at, *most > 0 ? most - sums.begin() : -1);
  }
}
