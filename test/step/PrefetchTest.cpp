// Gathers ahead of their use, by hand and against what is promised: a layer starts with the first use of the one before
// it.
#include "step/Prefetch.h"

#include "gtest/gtest.h"

#include <map>
#include <random>

using namespace divisi::step;

namespace {

TEST(Prefetch, ALayerStartsWithTheOneBeforeIt) {
  Prefetch rule(100);
  EXPECT_EQ(rule.add({/*state=*/0, /*user=*/3, /*bytes=*/10}), 0);
  EXPECT_EQ(rule.add({1, 5, 95}), 0);
  EXPECT_EQ(rule.add({2, 5, 200}), 1);
  EXPECT_EQ(rule.add({3, 9, 1}), 2);
  EXPECT_EQ(rule.startOf(0), 3);
  EXPECT_EQ(rule.startOf(1), 3);
  EXPECT_EQ(rule.startOf(2), 5);
}

TEST(Prefetch, TheBackwardPassGathersAgain) {
  Prefetch rule(1000);
  EXPECT_EQ(rule.add({0, 1, 10}), 0);
  EXPECT_EQ(rule.add({1, 2, 10}), 0);
  EXPECT_EQ(rule.add({1, 7, 10}), 1);
  EXPECT_EQ(rule.add({0, 8, 10}), 1);
  EXPECT_EQ(rule.startOf(1), 1);
}

TEST(Prefetch, TasksBeginAtTheirOwnUses) {
  Prefetch rule;
  EXPECT_EQ(rule.add({0, 1, 10}), 0);
  rule.begin(10);
  EXPECT_EQ(rule.add({1, 4, 10}), 1);
  EXPECT_EQ(rule.startOf(1), 4);
}

TEST(Prefetch, ALayerIsASixteenthOfASmallModel) {
  Prefetch rule(1000);
  rule.begin(1600);
  std::vector<int> layers;
  for (int i = 0; i < 16; ++i)
    layers.push_back(rule.add({i, i, 50}));
  EXPECT_EQ(layers, (std::vector<int>{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7}));
  rule.begin(160000); // a bucket is less
  EXPECT_EQ(rule.add({0, 20, 999}), 8);
  EXPECT_EQ(rule.add({1, 21, 1}), 8);
  EXPECT_EQ(rule.add({2, 22, 1}), 9);
}

TEST(Prefetch, TheNextLayerAloneIsInMemoryBesideTheCurrentOne) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const int64_t limit = 1 + random() % 60;
    Prefetch rule(limit);
    std::vector<Fetch> fetches;
    std::vector<int> layers;
    int64_t user = 0;
    for (int count = 1 + random() % 40; count > 0; --count) {
      user += random() % 3;
      fetches.push_back({(int64_t)(random() % 8), user, (int64_t)(1 + random() % 30)});
      layers.push_back(rule.add(fetches.back()));
    }
    std::map<int, std::vector<Fetch>> members;
    for (size_t i = 0; i < fetches.size(); ++i)
      members[layers[i]].push_back(fetches[i]);
    for (auto &[layer, list] : members) {
      std::set<int64_t> states;
      int64_t bytes = 0;
      for (const Fetch &fetch : list) {
        EXPECT_LT(bytes, limit) << "round " << round; // with what comes before: at most the limit and one more
        bytes += fetch.bytes;
        EXPECT_TRUE(states.insert(fetch.state).second) << "round " << round;
      }
      EXPECT_EQ(rule.startOf(layer), members.count(layer - 1) ? members[layer - 1].front().user : list.front().user);
      if (members.count(layer - 2)) { // which nobody reads any more, but for what runs at this position
        EXPECT_LE(members[layer - 2].back().user, rule.startOf(layer)) << "round " << round;
      }
    }
  }
}
} // namespace
