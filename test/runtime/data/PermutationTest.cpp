#include "runtime/data/Shuffle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

using divisi::runtime::Permutation;

namespace {
std::vector<uint64_t> orderOf(uint64_t seed, uint64_t epoch, uint64_t count) {
  Permutation permutation(seed, epoch, count);
  std::vector<uint64_t> order(count);
  for (uint64_t i = 0; i < count; ++i)
    order[i] = permutation.at(i);
  return order;
}

/// How many standard deviations chi-square is above its mean, for cells that are expected to be alike.
double excess(const std::vector<int> &cells) {
  double expected = std::accumulate(cells.begin(), cells.end(), 0.0) / static_cast<double>(cells.size()), chi = 0;
  for (int n : cells)
    chi += (n - expected) * (n - expected) / expected;
  double freedom = static_cast<double>(cells.size() - 1);
  return (chi - freedom) / std::sqrt(2 * freedom);
}

TEST(PermutationTest, IsAPermutationThatDependsOnSeedAndEpoch) {
  for (uint64_t count : {1, 2, 3, 10, 1000, 65537}) {
    std::vector<uint64_t> order = orderOf(1, 2, count), sorted = order, all(count);
    std::sort(sorted.begin(), sorted.end());
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(sorted, all);
    if (count > 9) {
      EXPECT_NE(order, orderOf(1, 3, count));
      EXPECT_NE(order, orderOf(2, 2, count));
      EXPECT_NE(order, all);
    }
  }
  constexpr uint64_t many = uint64_t(1) << 40;
  Permutation large(3, 4, many + 1);
  std::set<uint64_t> seen;
  for (uint64_t i = 0; i < 10000; ++i)
    seen.insert(large.at(i));
  EXPECT_EQ(seen.size(), 10000u);
  EXPECT_LE(*seen.rbegin(), many);
  EXPECT_GT(*seen.rbegin(), many / 2);
}

/// The numbers of test/execute/token_order.py. They must never change: a checkpoint of an older program would resume
/// with other data.
TEST(PermutationTest, IsFixed) {
  EXPECT_EQ(orderOf(0, 0, 8), (std::vector<uint64_t>{4, 0, 1, 6, 5, 3, 7, 2}));
  EXPECT_EQ(orderOf(42, 7, 8), (std::vector<uint64_t>{4, 7, 1, 5, 3, 0, 2, 6}));
  EXPECT_EQ(orderOf(3, 5, 11), (std::vector<uint64_t>{2, 5, 8, 4, 7, 3, 1, 6, 0, 10, 9}));
}

/// All orders of few samples are about equally frequent. (Of five, the excess is 71 standard deviations after ten rounds, and 6 after fourteen.)
TEST(PermutationTest, AllOrdersOfFewAreAlike) {
  for (uint64_t count : {2, 3, 4, 5, 6}) {
    std::map<std::vector<uint64_t>, int> orders;
    for (uint64_t seed = 0; seed < 100000; ++seed)
      orders[orderOf(seed, 0, count)] += 1;
    std::vector<int> cells;
    for (const auto &[order, n] : orders)
      cells.push_back(n);
    EXPECT_EQ(cells.size(), static_cast<size_t>(std::tgamma(count + 1) + 0.5));
    EXPECT_LT(std::fabs(excess(cells)), 5) << count;
  }
}

/// Of more samples: each is anywhere, and so is the one that follows it.
TEST(PermutationTest, PlacesAndNeighboursAreAlike) {
  for (uint64_t count : {12, 37, 100}) {
    std::vector<int> places(count * count), pairs, distances(count - 1);
    std::map<std::pair<uint64_t, uint64_t>, int> neighbours;
    for (uint64_t seed = 0; seed < 20000; ++seed) {
      std::vector<uint64_t> order = orderOf(seed, 3, count);
      for (uint64_t i = 0; i < count; ++i)
        places[i * count + order[i]] += 1;
      neighbours[{order[4], order[5]}] += 1;
      distances[(order[5] + count - order[4]) % count - 1] += 1;
    }
    for (uint64_t a = 0; a < count; ++a)
      for (uint64_t b = 0; b < count; ++b)
        if (a != b)
          pairs.push_back(neighbours[{a, b}]);
    EXPECT_LT(std::fabs(excess(places)), 5) << count; // rows are dependent: the spread is a little smaller
    EXPECT_LT(std::fabs(excess(pairs)), 5) << count;
    EXPECT_LT(std::fabs(excess(distances)), 5) << count;
  }
}
} // namespace
