#include "runtime/main/Delay.h"

#include <gtest/gtest.h>

using namespace divisi::runtime;

namespace {

TEST(Delay, IsThatOfTheRank) {
  for (auto [rank, from, to] : {std::tuple(0, 10.0, 10.0), {1, 0.0, 0.0}, {2, 0.5, 60.0}}) {
    auto delay = Delay::parse("0=10,2=0.5-60", rank);
    ASSERT_TRUE(delay.ok());
    EXPECT_EQ(delay->from, from);
    EXPECT_EQ(delay->to, to);
  }
  EXPECT_TRUE(Delay::parse("", 0).ok());
}

TEST(Delay, RefusesWhatIsNoDelay) {
  for (const char *text : {"x", "0", "0=", "=5", "0=-5", "0=5-", "0=9-3", "0=5ms", "-1=5", "0=1e9", "0=nan", "0=5,,1=2", "0=5;1=2"}) {
    auto delay = Delay::parse(text, 0);
    ASSERT_FALSE(delay.ok()) << text;
    EXPECT_NE(delay.status().message().find("RANK=MILLISECONDS"), std::string::npos);
  }
}

} // namespace
