#include "compiler/Report/BatchAdvice.h"

#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace divisi::compiler;

namespace {

std::string failureOf(llvm::StringRef text) {
  auto noise = MeasuredNoise::parse("run.jsonl", text);
  return noise ? "" : llvm::toString(noise.takeError());
}

const std::string first = R"({"schema":1,"step":1,"loss":2,"grad_sq":5,"grad_variance":1000})" "\n";

TEST(MeasuredNoise, IsOfTheLastHalf) {
  auto noise = MeasuredNoise::parse("run.jsonl", first + R"({"step":2,"grad_sq":7,"grad_variance":7})" "\n"
                                                         R"({"eval":true,"step":2,"loss":1})" "\n"
                                                         R"({"step":3,"grad_sq":2,"grad_variance":100})" "\n"
                                                         R"({"step":4,"grad_sq":-1,"grad_variance":300})" "\n");
  ASSERT_TRUE(bool(noise)) << llvm::toString(noise.takeError());
  EXPECT_DOUBLE_EQ(noise->gradient, 0.5);
  EXPECT_DOUBLE_EQ(noise->variance, 200);
  EXPECT_DOUBLE_EQ(noise->scale(), 400);
  EXPECT_EQ(noise->first, 3);
  EXPECT_EQ(noise->last, 4);
}

TEST(MeasuredNoise, LeavesOutSkippedStepsAndALineThatIsBeingWritten) {
  auto noise = MeasuredNoise::parse("run.jsonl", first + R"({"step":2,"grad_sq":null,"grad_variance":null})" "\n" R"({"step":3,"gra)");
  ASSERT_TRUE(bool(noise)) << llvm::toString(noise.takeError());
  EXPECT_DOUBLE_EQ(noise->scale(), 200);
}

TEST(MeasuredNoise, LeavesOutLinesOfOthers) {
  for (const char *other : {"nonsense\n", "[1]\n", "\n", R"({"note":"resumed"})" "\n", "\xff\x9b\n"})
    for (const std::string &text : {other + first, first + other}) {
      auto noise = MeasuredNoise::parse("run.jsonl", text);
      ASSERT_TRUE(bool(noise)) << text << llvm::toString(noise.takeError());
      EXPECT_DOUBLE_EQ(noise->scale(), 200);
    }
  EXPECT_NE(failureOf("nonsense\n{}\n"), "");
}

TEST(MeasuredNoise, NamesTheLineOfAFault) {
  EXPECT_EQ(failureOf(first + R"({"step":2,"grad_sq":"x","grad_variance":1})" "\n"),
            "run.jsonl:2: 'grad_sq' is no number: this is no line of a log (docs/log.md)");
  EXPECT_EQ(failureOf(first + R"({"step":2,"grad_sq":1})" "\n"), "run.jsonl:2: 'grad_variance' is no number: this is no line of a log (docs/log.md)");
  for (const char *text : {R"({"step":1})" "\n", R"({"schema":2,"step":1})" "\n", R"({"schema":"1","step":1})" "\n"})
    EXPECT_EQ(failureOf(text), "run.jsonl:1: is not the first line of a log of schema 1: --log takes what a program writes by --log");
  EXPECT_EQ(failureOf("PK\x03\x04\n").find("run.jsonl: is not the first line of a log of schema 1, and the file looks like a zip archive: "), 0u);
  EXPECT_NE(failureOf(std::string("\0\xff\n", 3)), "");
  EXPECT_NE(failureOf("{\"schema\":1"), "");
}

TEST(MeasuredNoise, SaysWhatIsMissing) {
  EXPECT_EQ(failureOf(R"({"schema":1,"step":1,"loss":2})" "\n"),
            "'run.jsonl' has no estimates of the noise: compile the program with --log-noise-scale");
  EXPECT_NE(failureOf("").find("has no estimates"), std::string::npos);
  EXPECT_EQ(failureOf(R"({"schema":1,"step":9,"grad_sq":-1,"grad_variance":3})" "\n"),
            "'run.jsonl': the estimates of steps 9 to 9 are too few to tell the gradient from its noise: log more steps, or larger batches");
  EXPECT_NE(failureOf(R"({"schema":1,"step":1,"grad_sq":1e-300,"grad_variance":1e300})" "\n").find("too few"), std::string::npos);
}

/// Steps of a + c b: a fixed time, and one for each sample.
BatchAdvice adviceFor(double scale, double fixed, double each) {
  std::vector<BatchPrice> prices;
  for (int64_t b : {8, 16, 32, 64, 128})
    prices.push_back({b, (double)b, fixed + each * (double)b, "plan", true});
  return {"batch", "run.jsonl", {1, scale, 1, 10}, prices, 2};
}

TEST(BatchAdvice, IsPolluxsGoodput) {
  BatchAdvice advice = adviceFor(96, 0.1, 0.01);
  BatchPrice own{32, 32, 0.42, "", true}, twice{64, 64, 0.74, "", true};
  EXPECT_DOUBLE_EQ(advice.efficiency(own), 1 / (1 + 96.0 / 32));
  EXPECT_DOUBLE_EQ(advice.goodput(own), 32 / 0.42); // its own throughput
  // Pollux, equation 7: (phi + m0) / (phi + m), with the noise scale for phi.
  EXPECT_DOUBLE_EQ(advice.goodput(twice), 64 / 0.74 * (96 + 32) / (96 + 64));
}

// Progress in a second is b / (b + B) / (a + c b), whose maximum is at b = sqrt(a B / c).
TEST(BatchAdvice, FindsTheOptimumInClosedForm) {
  for (double fixed : {0.01, 0.1, 1.0, 10.0})
    for (double scale : {4.0, 30.0, 600.0, 10'000.0}) {
      const double each = 0.01, optimum = std::sqrt(fixed * scale / each);
      const int best = adviceFor(scale, fixed, each).best();
      // In the logarithm of b the function is symmetric around it.
      int nearest = 0;
      for (int i = 1; i < 5; ++i)
        if (std::abs(std::log2(optimum / (8 << i))) < std::abs(std::log2(optimum / (8 << nearest))))
          nearest = i;
      EXPECT_EQ(best, nearest) << fixed << " " << scale;
    }
}

TEST(BatchAdvice, TakesOnlyWhatFits) {
  std::vector<BatchPrice> prices = {{8, 8, 1, "a", true}, {16, 16, 1, "b", false}};
  EXPECT_EQ(BatchAdvice("batch", "l", {1, 100, 1, 2}, prices, 0).best(), 0);
  prices[0].fits = false;
  BatchAdvice none("batch", "l", {1, 100, 1, 2}, prices, 0);
  EXPECT_EQ(none.best(), -1);
  EXPECT_FALSE(none.describe().get("best"));
}

TEST(BatchAdvice, PrintsATable) {
  std::string text;
  llvm::raw_string_ostream out(text);
  adviceFor(96, 0.1, 0.01).print(out);
  EXPECT_NE(text.find("noise scale of 96 samples (steps 1 to 10 of run.jsonl)"), std::string::npos) << text;
  EXPECT_NE(text.find("best goodput: the present batch of 32"), std::string::npos) << text;
  text.clear();
  adviceFor(600, 0.1, 0.01).print(out);
  EXPECT_NE(text.find("best goodput: --dim batch=64, "), std::string::npos) << text;
}
} // namespace
