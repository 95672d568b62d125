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

/// What torch.optim.lr_scheduler gives for a rate of 0.3.
TEST(ScheduleTest, IsAsInPyTorch) {
  auto expectRates = [](const Schedule &s, const std::vector<double> &expected) {
    for (size_t t = 0; t < expected.size(); ++t)
      EXPECT_NEAR(s.at(static_cast<int64_t>(t), static_cast<int64_t>(expected.size())), expected[t], 1e-12) << t;
  };
  Schedule polynomial{Schedule::Kind::Polynomial, 0.3}; // PolynomialLR(total_iters=12, power=2.5)
  polynomial.power = 2.5;
  expectRates(polynomial, {0.3, 0.2413514167469102, 0.1901814435781827, 0.146141786888624, 0.10886621079036347,
                           0.0779674336989014, 0.05303300858899104, 0.03361964710249492, 0.01924500897298752,
                           0.009374999999999994, 0.0034020690871988542, 0.0006014065304058604});
  // OneCycleLR(max_lr=0.3, total_steps=20, cycle_momentum=False)
  expectRates({Schedule::Kind::OneCycle, 0.3},
              {0.01200000000000001,  0.039501552810007556, 0.11150155281000756, 0.2004984471899924,
               0.2724984471899924,   0.3,                  0.2962392018705262,  0.2851453896040421,
               0.267274853271315,    0.24352369618492894,  0.21508290053739026, 0.18337860658088678,
               0.1500006,            0.11662259341911323,  0.08491829946260977, 0.05647750381507109,
               0.03272634672868501,  0.014855810395957887, 0.0037619981294737662, 1.2e-06});
  Schedule steps{Schedule::Kind::Step, 0.3, 0, 0, 0.5}; // MultiStepLR(milestones=[3, 7, 8], gamma=0.5)
  steps.milestones = {3, 7, 8};
  expectRates(steps, {0.3, 0.3, 0.3, 0.15, 0.15, 0.15, 0.15, 0.075, 0.0375, 0.0375, 0.0375, 0.0375});
}

TEST(ScheduleTest, OneCycleOfFewSteps) {
  for (int64_t total = 1; total < 5; ++total)
    for (int64_t warmup : {0, 1, 9})
      for (int64_t t = 0; t < total + 2; ++t) {
        double rate = Schedule{Schedule::Kind::OneCycle, 0.3, warmup}.at(t, total);
        EXPECT_TRUE(rate > 0 && rate <= 0.3) << total << ' ' << warmup << ' ' << t << ' ' << rate;
      }
  EXPECT_DOUBLE_EQ((Schedule{Schedule::Kind::OneCycle, 0.3, 4}.at(4, 20)), 0.3);
}

TEST(ScheduleTest, StableRateBetweenWarmupAndDecay) {
  Schedule s{Schedule::Kind::Wsd, 0.5, 10};
  s.decaySteps = 20;
  for (int64_t t = 0; t <= 110; ++t) {
    double expected = t < 10 ? 0.05 * static_cast<double>(t + 1) : t <= 80 ? 0.5 : t >= 100 ? 0 : 0.025 * static_cast<double>(100 - t);
    EXPECT_NEAR(s.at(t, 100), expected, 1e-15) << t;
  }
  s.decaySteps = 0; // a tenth
  EXPECT_DOUBLE_EQ(s.at(90, 100), 0.5);
  EXPECT_DOUBLE_EQ(s.at(95, 100), 0.25);
}

/// arXiv 1706.02677: from the base rate by a constant amount in each step to k times that rate.
TEST(ScheduleTest, LargerBatches) {
  Schedule s{Schedule::Kind::Constant, 0.1, 5};
  s.batchScale = 8;
  const std::vector<double> expected = {0.1, 0.24, 0.38, 0.52, 0.66, 0.8, 0.8};
  for (size_t t = 0; t < expected.size(); ++t)
    EXPECT_NEAR(s.at(static_cast<int64_t>(t), 100), expected[t], 1e-15);
  s.batchScale = 1;
  EXPECT_DOUBLE_EQ(s.at(0, 100), 0.1);
  for (auto kind : {Schedule::Kind::Linear, Schedule::Kind::Cosine, Schedule::Kind::Polynomial, Schedule::Kind::Wsd}) {
    Schedule plain{kind, 0.4}, scaled{kind, 0.1};
    scaled.batchScale = 4;
    for (int64_t t = 0; t < 50; ++t)
      EXPECT_NEAR(scaled.at(t, 50), plain.at(t, 50), 1e-15);
  }
}

TEST(ScheduleTest, Names) {
  for (const std::string &name : Schedule::names())
    EXPECT_EQ(Schedule::nameOf(Schedule::parse(name).value()), name);
  EXPECT_EQ(Schedule::parse("constant"), Schedule::Kind::Constant);
  EXPECT_EQ(Schedule::parse("linear"), Schedule::Kind::Linear);
  EXPECT_EQ(Schedule::parse("cosine"), Schedule::Kind::Cosine);
  EXPECT_EQ(Schedule::parse("step"), Schedule::Kind::Step);
  EXPECT_FALSE(Schedule::parse("Cosine"));
}
} // namespace
