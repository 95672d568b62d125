#include "runtime/main/ShareDealer.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

using namespace divisi::runtime;

namespace {

/// Deals to `workers` workers that take random times; checks each deal by what is unfinished then.
void play(int64_t batches, int64_t workers, std::optional<int64_t> bound, unsigned seed, std::optional<int64_t> stopAfter = {}) {
  std::mt19937 random(seed);
  ShareDealer dealer(5, 5 + batches, workers, bound);
  std::vector<Share> dealt, open;
  int64_t finished = 0;
  while (!dealer.isDone()) {
    bool free = static_cast<int64_t>(open.size()) < workers;
    std::optional<Share> share = free && random() % 3 != 0 ? dealer.deal() : std::nullopt;
    if (share) {
      for (const Share &other : open)
        if (bound) {
          EXPECT_LE(share->batch - other.batch, *bound);
        }
      dealt.push_back(*share);
      open.push_back(*share);
    } else if (!open.empty()) {
      size_t which = random() % open.size();
      dealer.finish(open[which]);
      open.erase(open.begin() + static_cast<int64_t>(which));
      if (++finished == stopAfter)
        dealer.stop();
    }
  }
  EXPECT_TRUE(open.empty());
  ASSERT_EQ(dealt.size() % static_cast<size_t>(workers), 0u);
  for (size_t i = 0; i < dealt.size(); ++i)
    EXPECT_EQ(dealt[i], (Share{5 + static_cast<int64_t>(i) / workers, static_cast<int64_t>(i) % workers}));
  if (!stopAfter) {
    EXPECT_EQ(static_cast<int64_t>(dealt.size()), batches * workers);
  } else {
    EXPECT_LE(static_cast<int64_t>(dealt.size()), (*stopAfter + 2 * workers));
  }
  EXPECT_EQ(dealer.endBatch() - 5, static_cast<int64_t>(dealt.size()) / workers);
}

TEST(ShareDealer, DealsEachShareOnceAndKeepsTheBound) {
  for (unsigned seed = 0; seed < 50; ++seed)
    for (int64_t workers : {1, 2, 5})
      for (std::optional<int64_t> bound : {std::optional<int64_t>(0), {1}, {4}, {}})
        play(12, workers, bound, seed);
}

TEST(ShareDealer, EndsWithAWholeBatch) {
  for (unsigned seed = 0; seed < 50; ++seed)
    for (int64_t workers : {2, 3})
      play(100, workers, {}, seed, 17);
}

TEST(ShareDealer, WithBoundZeroAllWaitForEachOther) {
  ShareDealer dealer(0, 2, 2, 0);
  EXPECT_EQ(dealer.deal(), (Share{0, 0}));
  EXPECT_EQ(dealer.deal(), (Share{0, 1}));
  EXPECT_EQ(dealer.deal(), std::nullopt);
  dealer.finish({0, 1});
  EXPECT_EQ(dealer.deal(), std::nullopt);
  dealer.finish({0, 0});
  EXPECT_EQ(dealer.deal(), (Share{1, 0}));
}

/// Workers that are lost at random: each share is finished once, and the bound holds for all that are begun.
TEST(ShareDealer, SharesOfLostWorkersAreDealtAgain) {
  for (unsigned seed = 0; seed < 50; ++seed)
    for (std::optional<int64_t> bound : {std::optional<int64_t>(1), {}}) {
      std::mt19937 random(seed);
      ShareDealer dealer(0, 12, 4, bound);
      std::vector<Share> open;
      std::multiset<Share> finished;
      while (!dealer.isDone()) {
        std::optional<Share> share = open.size() < 3 && random() % 3 != 0 ? dealer.deal() : std::nullopt;
        if (share)
          open.push_back(*share);
        for (const Share &older : open)
          if (share && bound) {
            EXPECT_LE(share->batch - older.batch, *bound);
          }
        if (share || open.empty())
          continue;
        size_t which = random() % open.size();
        if (random() % 4 == 0)
          dealer.takeBack(open[which]);
        else
          dealer.finish(*finished.insert(open[which]));
        open.erase(open.begin() + static_cast<int64_t>(which));
      }
      EXPECT_TRUE(open.empty());
      EXPECT_EQ(finished.size(), 48u);
      EXPECT_EQ(std::set<Share>(finished.begin(), finished.end()).size(), 48u);
    }
}

TEST(ShareDealer, AFastWorkerTakesMore) {
  ShareDealer dealer(0, 4, 2, {});
  std::optional<Share> slow = dealer.deal();
  for (int64_t i = 1; i < 8; ++i) {
    std::optional<Share> fast = dealer.deal();
    ASSERT_TRUE(fast);
    EXPECT_EQ(fast->batch, i / 2);
    dealer.finish(*fast);
  }
  EXPECT_FALSE(dealer.isDone());
  dealer.finish(*slow);
  EXPECT_TRUE(dealer.isDone());
}

} // namespace
