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

/// Runs a task that takes so long in each way, by SmallCalls; its calls need some runs to know their own ways, and the first run
/// after another way takes longer. Returns the way of the last run.
SmallCalls afterTask(TaskTeamwork &teamwork, int runs, const double (&times)[3]) {
  SmallCalls before = SmallCalls::byChoice, way = before;
  for (int i = 0; i < runs; ++i) {
    before = std::exchange(way, teamwork.choose());
    teamwork.note((i < 20 || way != before ? 1.5 : 1) * times[static_cast<int>(way)]);
  }
  return way;
}

TEST(TaskTeamwork, TheFastestWayOfTheTaskIsChosen) {
  const std::pair<std::array<double, 3>, SmallCalls> cases[] = {{{1120, 980, 905}, SmallCalls::inTeam},
                                                                {{79, 71, 81}, SmallCalls::byChoice},
                                                                {{72, 80, 84}, SmallCalls::alone},
                                                                {{100, 99, 99}, SmallCalls::alone}};
  for (const auto &[times, fastest] : cases) {
    TaskTeamwork teamwork;
    EXPECT_EQ(afterTask(teamwork, 94, {times[0], times[1], times[2]}), fastest) << times[0];
  }
}

TEST(TaskTeamwork, OneSlowRunInTenDecidesNothing) {
  TaskTeamwork teamwork;
  int alone = 0;
  for (int i = 0; i < 3000; ++i) {
    const bool isAlone = teamwork.choose() == SmallCalls::alone;
    alone += isAlone;
    teamwork.note(!isAlone ? 90 : i % 10 == 3 ? 720 : 72);
  }
  EXPECT_GT(alone, 2760);
}

TEST(TaskTeamwork, ABusyMachineAtTheBeginningIsSoonForgotten) {
  TaskTeamwork teamwork;
  EXPECT_EQ(afterTask(teamwork, 80, {400, 560, 530}), SmallCalls::alone); // another program ends
  int slow = 0;
  for (int i = 0; i < 500; ++i) {
    const SmallCalls way = teamwork.choose();
    slow += way == SmallCalls::alone;
    teamwork.note(way == SmallCalls::alone ? 400 : 270);
  }
  EXPECT_LT(slow, 60);
}

TEST(TaskTeamwork, AWayThatIsSometimesFasterIsNotChosen) {
  TaskTeamwork teamwork;
  int sometimes = 0;
  for (int i = 0; i < 2000; ++i) {
    const SmallCalls way = teamwork.choose();
    sometimes += way == SmallCalls::inTeam;
    teamwork.note(way == SmallCalls::alone ? 400 : way == SmallCalls::byChoice ? 450 : i % 3 == 0 && i > 72 ? 270 : 700);
  }
  EXPECT_LT(sometimes, 150);
}

TEST(TaskTeamwork, AfterSomeThousandRunsTheMachineIsLookedAtAgain) {
  TaskTeamwork teamwork;
  EXPECT_EQ(afterTask(teamwork, 94, {1000, 9000, 9000}), SmallCalls::alone); // another program uses a core
  EXPECT_EQ(afterTask(teamwork, 10001, {1000, 950, 900}), SmallCalls::inTeam);
}
} // namespace
