#include "runtime/main/Minibatches.h"

#include <gtest/gtest.h>

using namespace divisi::runtime;

namespace {

/// The runs of every step of `feeds` batches and the drain: "F3" for row 0 and minibatch 3, found by its learning rate.
std::vector<std::string> stepsOf(Minibatches minibatches, const Table &table, const std::string &names, int feeds) {
  std::vector<std::string> steps;
  for (int step = 0; step < feeds || !minibatches.isEmpty(); ++step) {
    if (step < feeds)
      minibatches.feed({double(step), 0});
    std::string &text = steps.emplace_back();
    for (size_t i = 0; i < table.size(); ++i)
      for (const auto &run : minibatches.runs(table[i]))
        text += names[i] + concat(run.minibatch.learningRate, '@', run.slot, '-', run.behind, ' ');
    minibatches.endStep();
  }
  return steps;
}

using Steps = std::vector<std::string>;

TEST(Minibatches, FirstStageOfThree) {
  Table table{{0, 0, 100, 10, 3}, {1, -2, 100, 10, 3}};
  EXPECT_EQ(stepsOf({2, 2}, table, "FB", 4),
            (Steps{"F0@100-0 ", "F1@110-1 ", "F2@120-2 B0@100-0 ", "F3@100-2 B1@110-0 ", "B2@120-0 ", "B3@100-0 "}));
}

TEST(Minibatches, LastStageWaitsForTheOthersAtTheEnd) {
  Table table{{0, 0, 0, 0, 1}, {1, 0, 0, 0, 1}};
  EXPECT_EQ(stepsOf({0, 2}, table, "FB", 2), (Steps{"F0@0-0 B0@0-0 ", "F1@0-0 B1@0-0 ", "", ""}));
}

TEST(Minibatches, RoomForLaterOnesIsMadeFromTheFirstStepOn) {
  Table table{{0, 1, 0, 10, 3}, {1, 0, 0, 10, 3}, {2, -1, 0, 10, 3}}; // the middle stage of three, with vertical sync
  Minibatches minibatches(1, 2);
  minibatches.feed({});
  ASSERT_EQ(minibatches.runs(table[0]).size(), 2u);
  EXPECT_EQ(minibatches.runs(table[0])[0].slot, 0);
  EXPECT_EQ(minibatches.runs(table[0])[1].slot, 10);
  minibatches.endStep();
  minibatches.feed({});
  ASSERT_EQ(minibatches.runs(table[0]).size(), 1u);
  EXPECT_EQ(minibatches.runs(table[0])[0].slot, 20);
  minibatches.endStep();
  EXPECT_TRUE(minibatches.runs(table[0]).empty()); // no more minibatches
}

/// The second of two replicas takes minibatches 1 and 3; both update after 1, 3, and the last one.
TEST(Minibatches, ReplicasTakeTurnsAndUpdateTogether) {
  Table table{{0, 0, 0, 0, 1, 0}, {1, -2, 0, 0, 1, 0}, {2, -2, 0, 0, 1, -1}};
  EXPECT_EQ(stepsOf({2, 2, 1, 2}, table, "FBU", 5),
            (Steps{"", "F1@0-1 ", "", "F3@0-3 B1@0-1 U1@0-1 ", "", "B3@0-1 U3@0-1 ", "U4@0-0 "}));
}

TEST(Minibatches, CountsWhatAllRanksHaveFinished) {
  Minibatches minibatches(0, 2);
  EXPECT_TRUE(minibatches.isEmpty());
  std::vector<int64_t> finished;
  for (int step = 0; step < 5; ++step) {
    if (step < 3)
      minibatches.feed({});
    EXPECT_EQ(minibatches.endStep(), step < 3);
    finished.push_back(minibatches.finishedByAll());
  }
  EXPECT_EQ(finished, (std::vector<int64_t>{0, 0, 1, 2, 3}));
  EXPECT_TRUE(minibatches.isEmpty());
}

} // namespace
