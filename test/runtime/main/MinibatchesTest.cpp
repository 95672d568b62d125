#include "runtime/main/Minibatches.h"

#include <gtest/gtest.h>

using namespace divisi::runtime;

namespace {

/// The runs of every minibatch of `feeds` steps and of the drain: "F3@10-1" for row 0 (named F) and a minibatch of step 3,
/// found by its learning rate, its slot and the updates that are pending; with several minibatches to a step "F3.2@10-1".
std::vector<std::string> stepsOf(Minibatches minibatches, const Table &table, const std::string &names, int feeds,
                                 int batch = 1) {
  std::vector<std::string> steps;
  for (int next = 0; next < feeds * batch || !minibatches.isEmpty(); ++next) {
    if (next < feeds * batch && next % batch == 0)
      minibatches.feed({double(next / batch), 0});
    std::string &text = steps.emplace_back();
    for (size_t i = 0; i < table.size(); ++i)
      for (const auto &run : minibatches.runs(table[i])) {
        text += names[i] + concat(run.minibatch.learningRate, batch > 1 ? concat('.', run.microbatch) : "", '@', run.slot,
                                  '-', run.pending, ' ');
        minibatches.hasRun(table[i], run);
      }
    bool done = minibatches.endMinibatch();
    text += done && batch > 1 ? "done" : "";
  }
  return steps;
}

using Steps = std::vector<std::string>;

TEST(Minibatches, FirstStageOfThree) {
  Table table{{0, 0, 100, 10, 3}, {1, -2, 100, 10, 3, -1, Row::When::last}};
  EXPECT_EQ(stepsOf({2, 2}, table, "FB", 4),
            (Steps{"F0@100-0 ", "F1@110-1 ", "F2@120-2 B0@100-0 ", "F3@100-2 B1@110-0 ", "B2@120-0 ", "B3@100-0 "}));
}

TEST(Minibatches, LastStageWaitsForTheOthersAtTheEnd) {
  Table table{{0, 0, 0, 0, 1}, {1, 0, 0, 0, 1, -1, Row::When::last}};
  EXPECT_EQ(stepsOf({0, 2}, table, "FB", 2), (Steps{"F0@0-0 B0@0-0 ", "F1@0-0 B1@0-0 ", "", ""}));
}

TEST(Minibatches, RoomForLaterOnesIsMadeFromTheFirstStepOn) {
  Table table{{0, 1, 0, 10, 3}, {1, 0, 0, 10, 3}, {2, -1, 0, 10, 3}}; // the middle stage of three, with vertical sync
  Minibatches minibatches(1, 2);
  minibatches.feed({});
  ASSERT_EQ(minibatches.runs(table[0]).size(), 2u);
  EXPECT_EQ(minibatches.runs(table[0])[0].slot, 0);
  EXPECT_EQ(minibatches.runs(table[0])[1].slot, 10);
  minibatches.endMinibatch();
  minibatches.feed({});
  ASSERT_EQ(minibatches.runs(table[0]).size(), 1u);
  EXPECT_EQ(minibatches.runs(table[0])[0].slot, 20);
  minibatches.endMinibatch();
  EXPECT_TRUE(minibatches.runs(table[0]).empty()); // no more minibatches
}

/// The second of two replicas takes minibatches 1 and 3; both update after 1, 3, and the last one.
TEST(Minibatches, ReplicasTakeTurnsAndUpdateTogether) {
  Table table{{0, 0, 0, 0, 1, 0}, {1, -2, 0, 0, 1, 0}, {2, -2, 0, 0, 1, -1, Row::When::last}};
  EXPECT_EQ(stepsOf({2, 2, 1, 2}, table, "FBU", 5),
            (Steps{"", "F1@0-1 ", "", "F3@0-3 B1@0-1 U1@0-1 ", "", "B3@0-1 U3@0-1 ", "U4@0-0 "}));
}

/// Two steps of three microbatches each. The passes of a batch count the update of the one before it as pending until it
/// was made; the last stage makes it when the next batch has started.
TEST(Minibatches, BatchesOfMicrobatchesAreUpdatedTogether) {
  using enum Row::When;
  Table begin{{0, 0, 0, 0, 1, -1, first}, {1, -1, 0, 0, 1, -1, first}, {2, 0, 0, 0, 2},
              {3, -1, 0, 0, 2},                {4, -1, 0, 0, 1, -1, last}};
  EXPECT_EQ(stepsOf({1, 1, 0, 1, 3}, begin, "SHFBU", 2, 3),
            (Steps{"S0.0@0-0 F0.0@0-0 ", "H0.0@0-0 F0.1@0-0 B0.0@0-0 ", "F0.2@0-0 B0.1@0-0 ", "S1.0@0-1 F1.0@0-1 B0.2@0-0 U0.2@0-0 done",
                   "H1.0@0-0 F1.1@0-0 B1.0@0-0 ", "F1.2@0-0 B1.1@0-0 ", "B1.2@0-0 U1.2@0-0 done"}));
  Table end{{0, 0, 0, 0, 1, -1, first}, {1, -1, 0, 0, 1, -1, last}, {2, 0, 0, 0, 1}, {3, 0, 0, 0, 1}};
  EXPECT_EQ(stepsOf({1, 1, 0, 1, 3}, end, "SUFB", 2, 3),
            (Steps{"S0.0@0-0 F0.0@0-0 B0.0@0-0 ", "F0.1@0-0 B0.1@0-0 ", "F0.2@0-0 B0.2@0-0 ", "S1.0@0-1 U0.2@0-0 F1.0@0-0 B1.0@0-0 done",
                   "F1.1@0-0 B1.1@0-0 ", "F1.2@0-0 B1.2@0-0 ", "U1.2@0-0 done"}));
}

TEST(Minibatches, CountsWhatAllRanksHaveFinished) {
  Minibatches minibatches(0, 2);
  EXPECT_TRUE(minibatches.isEmpty());
  std::vector<int64_t> finished;
  for (int step = 0; step < 5; ++step) {
    if (step < 3)
      minibatches.feed({});
    EXPECT_EQ(minibatches.endMinibatch(), step < 3);
    finished.push_back(minibatches.finishedByAll());
  }
  EXPECT_EQ(finished, (std::vector<int64_t>{0, 0, 1, 2, 3}));
  EXPECT_TRUE(minibatches.isEmpty());
}

} // namespace
