#include "runtime/core/NoiseScale.h"

#include <gtest/gtest.h>

#include <random>

using namespace divisi::runtime;

namespace {

// The squares that two batches have on average: |G|^2 + tr(Sigma) / b.
TEST(NoiseScale, InvertsTheExpectations) {
  const double gradient = 3, variance = 40;
  for (int64_t shares : {2, 4, 8}) {
    const double batch = 64;
    NoiseEstimate found = NoiseEstimate::of(gradient + variance / (batch / (double)shares), gradient + variance / batch, 64, shares);
    EXPECT_NEAR(found.gradient, gradient, 1e-12);
    EXPECT_NEAR(found.variance, variance, 1e-11);
  }
}

// The published formulas, with B_big = 12 and B_small = 4.
TEST(NoiseScale, IsAppendixA1) {
  NoiseEstimate found = NoiseEstimate::of(/*small=*/7, /*big=*/5, 12, 3);
  EXPECT_DOUBLE_EQ(found.gradient, 1.0 / (12 - 4) * (12 * 5 - 4 * 7));
  EXPECT_DOUBLE_EQ(found.variance, 1 / (1.0 / 4 - 1.0 / 12) * (7 - 5));
}

// Gradients of samples from N(1, 9) in one dimension: |G|^2 = 1 and tr(Sigma) = 9. The smoothed scale is near 9 as well.
TEST(NoiseScale, IsUnbiasedOnRandomGradients) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> sample(1, 3);
  NoiseScale scale;
  double gradient = 0, variance = 0, scales = 0;
  const int steps = 100'000, batch = 64, shares = 4;
  for (int step = 0; step < steps; ++step) {
    double small = 0, mean = 0;
    for (int s = 0; s < shares; ++s) {
      double sum = 0;
      for (int i = 0; i < batch / shares; ++i)
        sum += sample(random);
      sum /= batch / shares;
      small += sum * sum / shares;
      mean += sum / shares;
    }
    NoiseEstimate one = NoiseEstimate::of(small, mean * mean, batch, shares);
    scale.add(one);
    gradient += one.gradient / steps;
    variance += one.variance / steps;
    if (step >= 1000)
      scales += scale.scale() / (steps - 1000);
  }
  EXPECT_NEAR(gradient, 1, 0.02);
  EXPECT_NEAR(variance, 9, 0.1);
  EXPECT_NEAR(scales, 9, 0.3); // the quotient of averages over about 200 steps
}

// Equal steps: the averages grow alike, so that their quotient is right from the first step on.
TEST(NoiseScale, DoesNotDependOnTheStart) {
  NoiseScale scale;
  EXPECT_TRUE(std::isnan(scale.scale()));
  for (int step = 1; step <= 3; ++step) {
    scale.add({2, 10});
    EXPECT_NEAR(scale.scale(), 5, 1e-12);
    EXPECT_NEAR(scale.gradient, 2 * (1 - std::pow(0.99, step)), 1e-12);
  }
}

TEST(NoiseScale, LeavesOutWhatIsNotFinite) {
  NoiseScale scale;
  scale.add({2, 10});
  scale.add({NAN, 1});
  scale.add({1, INFINITY});
  EXPECT_NEAR(scale.scale(), 5, 1e-12);
  scale.add({-1000, 10}); // more noise than these steps can see through
  EXPECT_TRUE(std::isnan(scale.scale()));
}
} // namespace
