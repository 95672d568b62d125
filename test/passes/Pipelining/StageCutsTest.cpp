#include "passes/Pipelining/StageCuts.h"

#include <gtest/gtest.h>
#include <random>

using divisi::pipelining::cutIntoStages;

/// The time of the slowest stage, and that of the messages at all cuts.
static std::pair<double, double> costOf(const std::vector<double> &seconds, const std::vector<double> &cutSeconds,
                                        const std::vector<int> &cuts, const std::vector<double> &devices = {}) {
  double slowest = 0, messages = 0;
  int begin = 0;
  for (size_t k = 0; k <= cuts.size(); ++k) {
    int end = k < cuts.size() ? cuts[k] : (int)seconds.size();
    double sum = 0;
    for (int i = begin; i < end; ++i)
      sum += seconds[i];
    slowest = std::max(slowest, devices.empty() ? sum : sum / devices[k]);
    if (k < cuts.size()) {
      slowest = std::max(slowest, cutSeconds[end]);
      messages += cutSeconds[end];
    }
    begin = end;
  }
  return {slowest, messages};
}

/// Tries every set of cuts.
static std::pair<double, double> bruteForce(const std::vector<double> &seconds, const std::vector<double> &cutSeconds,
                                            int stages, const std::vector<double> &devices = {}) {
  int layers = (int)seconds.size();
  std::pair<double, double> best = {1e30, 1e30};
  for (unsigned mask = 0; mask < 1u << (layers - 1); ++mask) {
    std::vector<int> cuts;
    for (int i = 1; i < layers; ++i)
      if (mask >> (i - 1) & 1)
        cuts.push_back(i);
    if ((int)cuts.size() == stages - 1)
      best = std::min(best, costOf(seconds, cutSeconds, cuts, devices));
  }
  return best;
}

TEST(StageCuts, EqualLayersMakeEqualStages) {
  EXPECT_EQ(cutIntoStages(std::vector<double>(8, 1.0), std::vector<double>(8, 0.0), 4), (std::vector<int>{2, 4, 6}));
  EXPECT_TRUE(cutIntoStages({3, 1}, {0, 0}, 1).empty());
}

TEST(StageCuts, LargeMessagesAreAvoided) {
  // Balanced cuts are before layer 2, where the message takes longer than a stage.
  EXPECT_EQ(cutIntoStages({1, 1, 1, 1}, {0, 1, 9, 1}, 2), (std::vector<int>{1}));
}

TEST(StageCuts, IsOptimal) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    int layers = 1 + random() % 9, stages = 1 + random() % layers;
    std::vector<double> seconds, cutSeconds;
    for (int i = 0; i < layers; ++i) {
      seconds.push_back(random() % 16);
      cutSeconds.push_back(random() % 12);
    }
    auto cuts = cutIntoStages(seconds, cutSeconds, stages);
    ASSERT_EQ((int)cuts.size(), stages - 1);
    EXPECT_TRUE(std::is_sorted(cuts.begin(), cuts.end()));
    EXPECT_EQ(costOf(seconds, cutSeconds, cuts), bruteForce(seconds, cutSeconds, stages)) << "round " << round;
  }
}

TEST(StageCuts, AStageOfSeveralDevicesTakesMore) {
  EXPECT_EQ(cutIntoStages(std::vector<double>(8, 1.0), std::vector<double>(8, 0.0), 2, {3, 1}), (std::vector<int>{6}));
  EXPECT_EQ(cutIntoStages(std::vector<double>(8, 1.0), std::vector<double>(8, 0.0), 3, {1, 2, 1}),
            (std::vector<int>{2, 6}));
}

TEST(StageCuts, IsOptimalForStagesThatDiffer) {
  std::mt19937 random(8);
  for (int round = 0; round < 500; ++round) {
    int layers = 1 + random() % 9, stages = 1 + random() % layers;
    std::vector<double> seconds, cutSeconds, devices;
    for (int i = 0; i < layers; ++i) {
      seconds.push_back(random() % 16);
      cutSeconds.push_back(random() % 12);
    }
    for (int k = 0; k < stages; ++k)
      devices.push_back(1 << random() % 3);
    auto cuts = cutIntoStages(seconds, cutSeconds, stages, devices);
    ASSERT_EQ((int)cuts.size(), stages - 1);
    EXPECT_EQ(costOf(seconds, cutSeconds, cuts, devices), bruteForce(seconds, cutSeconds, stages, devices))
        << "round " << round;
  }
}
