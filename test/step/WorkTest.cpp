// The figures of operations by their sharding rules.
#include "step/Work.h"

#include "gtest/gtest.h"

using namespace divisi;

namespace {
/// The sums of rows of a reduction of [4, 8, 10] over a dimension, on a device that has half of the first one.
double rowSumsOver(int reduced, double row = 10) {
  dist::ShardingRule rule;
  rule.operands.resize(1);
  rule.results.resize(1);
  const double sizes[] = {2, 8, row};
  double elements = 1;
  for (int d : {0, 1, 2}) {
    rule.operands[0].push_back({rule.addFactor("d" + std::to_string(d), (int64_t)sizes[d])});
    if (d != reduced) {
      rule.results[0].push_back({d});
      elements *= sizes[d];
    }
  }
  step::Work work;
  work.form = graph::Form::reduction;
  work.shapeBy(rule, sizes, elements);
  return work.rowSums;
}

TEST(Work, OnlySumsOverTheInnermostDimensionEndRows) {
  EXPECT_EQ(rowSumsOver(2), 2 * 8);
  EXPECT_EQ(rowSumsOver(1), 0);
  EXPECT_EQ(rowSumsOver(0), 0);
  EXPECT_EQ(rowSumsOver(2, 4), 2 * 8);
  EXPECT_EQ(rowSumsOver(2, 3), 0); // added up like elements
}

TEST(Work, OnlyAGradientOfFiltersSumsOverImages) {
  // Images [8, 16, 7], filters [32, 16, 3], results [8, 32, 7]; letters in the order of the factors.
  auto filters = [](std::vector<std::string> operands, std::string result) {
    const std::string letters = "ncowk";
    constexpr double sizes[] = {8, 16, 32, 7, 3};
    dist::ShardingRule rule;
    auto dims = [&](const std::string &text) {
      dist::ShardingRule::Dims list;
      for (char letter : text)
        list.push_back({(int)letters.find(letter)});
      return list;
    };
    for (auto [letter, size] : llvm::zip(letters, sizes))
      rule.addFactor(std::string(1, letter), (int64_t)size);
    for (const std::string &operand : operands)
      rule.operands.push_back(dims(operand));
    rule.results.push_back(dims(result));
    step::Work work;
    work.form = graph::Form::product, work.images = true;
    work.shapeBy(rule, sizes, 1);
    return work.filters;
  };
  EXPECT_FALSE(filters({"ncw", "ock"}, "now"));
  EXPECT_FALSE(filters({"now", "ock"}, "ncw")); // the gradient of images
  EXPECT_TRUE(filters({"ncw", "now"}, "ock"));
}
} // namespace
