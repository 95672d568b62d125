#include "runtime/main/Schedule.h"
#include "test/runtime/Util.h"

#include <numbers>

using namespace divisi::runtime;

namespace {
TEST(ScheduleTest, WarmupRisesLinearly) {
  for (auto kind : {Schedule::Kind::Constant, Schedule::Kind::Linear, Schedule::Kind::Cosine, Schedule::Kind::Step}) {
    Schedule s{kind, 0.5, 10, 7, 0.1};
    for (int64_t t = 0; t < 10; ++t)
      EXPECT_DOUBLE_EQ(s.at(t, 100), 0.05 * static_cast<double>(t + 1));
    EXPECT_DOUBLE_EQ(s.at(10, 100), 0.5);
  }
}

TEST(ScheduleTest, FollowsItsFormula) {
  for (int64_t warmup : {0, 20})
    for (int64_t t = warmup; t < 120; ++t) {
      double p = static_cast<double>(t - warmup) / static_cast<double>(120 - warmup);
      EXPECT_DOUBLE_EQ((Schedule{Schedule::Kind::Constant, 0.3, warmup}.at(t, 120)), 0.3);
      EXPECT_NEAR((Schedule{Schedule::Kind::Linear, 0.3, warmup}.at(t, 120)), 0.3 - 0.3 * p, 1e-15);
      EXPECT_NEAR((Schedule{Schedule::Kind::Cosine, 0.3, warmup}.at(t, 120)),
                  0.3 * std::pow(std::cos(std::numbers::pi * p / 2), 2), 1e-15);
      double falls = std::floor(static_cast<double>(t - warmup) / 30);
      EXPECT_DOUBLE_EQ((Schedule{Schedule::Kind::Step, 0.3, warmup, 30, 0.5}.at(t, 120)), 0.3 / std::pow(2, falls));
    }
}

TEST(ScheduleTest, EndsAtZeroAndStaysThere) {
  for (auto kind : {Schedule::Kind::Linear, Schedule::Kind::Cosine}) {
    EXPECT_NEAR((Schedule{kind, 0.3}.at(100, 100)), 0, 1e-16);
    EXPECT_NEAR((Schedule{kind, 0.3}.at(200, 100)), 0, 1e-16);
    EXPECT_EQ((Schedule{kind, 0.3, 100}.at(99, 50)), 0.3); // a warm-up longer than the training
  }
}

TEST(ScheduleTest, Names) {
  EXPECT_EQ(Schedule::parse("constant"), Schedule::Kind::Constant);
  EXPECT_EQ(Schedule::parse("linear"), Schedule::Kind::Linear);
  EXPECT_EQ(Schedule::parse("cosine"), Schedule::Kind::Cosine);
  EXPECT_EQ(Schedule::parse("step"), Schedule::Kind::Step);
  EXPECT_FALSE(Schedule::parse("Cosine"));
}
} // namespace
