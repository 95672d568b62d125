#include "runtime/core/Teamwork.h"

#include <gtest/gtest.h>

using namespace divisi::runtime;

namespace {
constexpr Teamwork::Way ways[] = {Teamwork::alone, Teamwork::awake, Teamwork::asleep};

/// Runs a kernel that takes so long in each way; returns the way of the last run.
Teamwork::Way after(Teamwork &teamwork, int runs, Teamwork::Way team, const double (&times)[3]) {
  Teamwork::Way way = Teamwork::alone;
  for (int i = 0; i < runs; ++i) {
    way = teamwork.choose(team);
    teamwork.note(way, times[way]);
  }
  return way;
}

TEST(Teamwork, TheFasterWayIsChosenForEachStateOfTheTeam) {
  for (auto [alone, awake, asleep] : {std::array<double, 3>{1000, 1800, 26000}, {5000, 3600, 28000}, {90000, 48000, 70000}}) {
    Teamwork teamwork;
    const double times[] = {alone, awake, asleep};
    for (Teamwork::Way team : {Teamwork::awake, Teamwork::asleep})
      EXPECT_EQ(after(teamwork, 20, team, times), times[team] < alone ? team : Teamwork::alone) << alone;
  }
}

TEST(Teamwork, EveryWayIsTriedBeforeItIsJudged) {
  Teamwork teamwork;
  int runs[3] = {};
  for (int i = 0; i < 30; ++i) {
    const auto way = teamwork.choose(i % 2 ? Teamwork::awake : Teamwork::asleep);
    ++runs[way];
    teamwork.note(way, way == Teamwork::alone ? 100 : 5000);
  }
  for (Teamwork::Way way : ways)
    EXPECT_GE(runs[way], 3);
}

TEST(Teamwork, OneSlowRunDecidesNothing) {
  Teamwork teamwork;
  for (int64_t time : {90000, 1000, 1000}) // the first one is cold
    teamwork.note(Teamwork::alone, time);
  const double times[] = {1000, 1800, 26000};
  EXPECT_EQ(after(teamwork, 10, Teamwork::awake, times), Teamwork::alone);
}

TEST(Teamwork, AfterSomeThousandRunsTheMachineIsLookedAtAgain) {
  Teamwork teamwork;
  const double busy[] = {5000, 900000, 900000}, quiet[] = {5000, 3000, 28000};
  EXPECT_EQ(after(teamwork, 100, Teamwork::awake, busy), Teamwork::alone);
  EXPECT_EQ(after(teamwork, 4000, Teamwork::awake, quiet), Teamwork::awake);
}

/// Runs a task whose calls need some runs to know their ways; returns whether a team ran all of the last one.
bool afterTask(TaskTeamwork &teamwork, int runs, double eachChooses, double always) {
  bool isAlways = false;
  for (int i = 0; i < runs; ++i) {
    isAlways = teamwork.choose();
    teamwork.note(isAlways, isAlways ? always : i < 20 ? 3 * eachChooses : eachChooses);
  }
  return isAlways;
}

TEST(TaskTeamwork, ATeamRunsAllCallsWhereTheTaskIsFasterSo) {
  for (auto [eachChooses, always] : {std::pair(980.0, 905.0), {71.0, 81.0}, {100.0, 99.0}}) {
    TaskTeamwork teamwork;
    EXPECT_EQ(afterTask(teamwork, 63, eachChooses, always), always < 0.98 * eachChooses) << always;
  }
}

TEST(TaskTeamwork, AfterSomeThousandRunsTheMachineIsLookedAtAgain) {
  TaskTeamwork teamwork;
  EXPECT_FALSE(afterTask(teamwork, 100, 1000, 9000)); // another program uses a core
  EXPECT_TRUE(afterTask(teamwork, 4001, 1000, 900));
}
} // namespace
