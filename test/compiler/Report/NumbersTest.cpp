#include "compiler/Report/Numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace divisi::compiler;

TEST(NumbersTest, threeDigitsWithoutExponents) {
  EXPECT_EQ(digits(0), "0");
  EXPECT_EQ(digits(1754.2), "1750");
  EXPECT_EQ(digits(999.6), "1000");
  EXPECT_EQ(digits(99.96), "100");
  EXPECT_EQ(digits(9.996), "10");
  EXPECT_EQ(digits(1.5), "1.5");
  EXPECT_EQ(digits(-0.0529), "-0.0529");
  EXPECT_EQ(digits(0.000123456), "0.000123");
  EXPECT_EQ(digits(3.46e-14), "0");
  EXPECT_EQ(digits(-3.46e-14), "0");
  EXPECT_EQ(digits(1e15), "1000000000000000");
  EXPECT_EQ(digits(std::nan("")), "unknown");
  EXPECT_EQ(digits(INFINITY), "infinite");
}

TEST(NumbersTest, unitsAndShares) {
  EXPECT_EQ(scaled(1.234e9, "B"), "1.23 GB");
  EXPECT_EQ(scaled(999.4, "B"), "999 B");
  EXPECT_EQ(scaled(999.6, "B"), "1 kB");
  EXPECT_EQ(scaled(0.5, "B"), "0.5 B");
  EXPECT_EQ(scaled(1.9e-6, "s"), "1.9 us");
  EXPECT_EQ(scaled(1.34e-7, "s"), "134 ns");
  EXPECT_EQ(scaled(0, "s"), "0 s");
  EXPECT_EQ(scaled(6.64e12, "FLOP/s"), "6.64 TFLOP/s");
  EXPECT_EQ(percent(0.00068), "0.068 %");
  EXPECT_EQ(percent(4.2e-15), "0 %");
  EXPECT_EQ(percent(-0.5), "-50 %");
}

TEST(NumbersTest, aNumberIsNeverFarFromItsText) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> exponents(-6, 14);
  for (int i = 0; i < 20000; ++i) {
    double value = std::pow(10.0, exponents(random));
    std::string text = digits(value);
    ASSERT_EQ(text.find_first_not_of("0123456789."), std::string::npos) << text;
    ASSERT_NEAR(std::stod(text) / value, 1, 0.005 * 1.001) << text << " of " << value;
  }
}
