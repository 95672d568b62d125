#include "dialects/Dist/FactorAxes.h"

#include <gtest/gtest.h>

using namespace divisi::dist;

namespace {

const Mesh mesh{{{"a", 2}, {"b", 3}, {"c", 4}}};

/// One dimension of heads x width.
ShardingRule heads(int64_t count, int64_t width) {
  ShardingRule rule;
  rule.addFactor("heads", count);
  rule.addFactor("width", width);
  rule.operands = {{{0, 1}}};
  rule.results = {{{0}, {1}}};
  return rule;
}

TEST(FactorAxesTest, MajorFactorsTakeAxesFirst) {
  FactorAxes axes(2);
  EXPECT_TRUE(axesToFactors(mesh, heads(6, 8), {0, 1}, {0}, axes));
  EXPECT_EQ(axes, (FactorAxes{{0}, {}}));
  axes.assign(2, {});
  EXPECT_TRUE(axesToFactors(mesh, heads(6, 8), {0, 1}, {0, 1, 2}, axes)); // 6 heads, then 4 parts of each
  EXPECT_EQ(axes, (FactorAxes{{0, 1}, {2}}));
  axes.assign(2, {});
  EXPECT_FALSE(axesToFactors(mesh, heads(6, 8), {0, 1}, {2}, axes)); // 4 does not divide 6: a shard ends in a head
}

TEST(FactorAxesTest, MinorFactorsNeedTheMajorOnesSplitEntirely) {
  EXPECT_EQ(factorsToAxes(mesh, heads(6, 8), {0, 1}, {{0, 1}, {2}}), (Axes{0, 1, 2}));
  EXPECT_EQ(factorsToAxes(mesh, heads(6, 8), {0, 1}, {{0}, {}}), Axes{0});
  EXPECT_EQ(factorsToAxes(mesh, heads(6, 8), {0, 1}, {{}, {2}}), std::nullopt);
  EXPECT_EQ(factorsToAxes(mesh, heads(6, 8), {0, 1}, {{0}, {2}}), std::nullopt);
  EXPECT_EQ(factorsToAxes(mesh, heads(1, 8), {0, 1}, {{}, {2}}), Axes{2});
}

TEST(FactorAxesTest, ValidSplits) {
  ShardingRule rule = heads(6, 8);
  EXPECT_TRUE(isValid(mesh, rule, {{0, 1}, {2}}));
  EXPECT_FALSE(isValid(mesh, rule, {{2}, {}}));  // does not divide
  EXPECT_FALSE(isValid(mesh, rule, {{0}, {0}})); // one axis, two factors
  EXPECT_FALSE(isValid(mesh, rule, {{}, {0}}));  // the operand's dimension cannot express it
  rule.factors[0].whole = true;
  EXPECT_FALSE(isValid(mesh, rule, {{0}, {}}));
  rule.factors[0].whole = false;
  rule.factors[0].least = 4; // shards of 3 are too small
  EXPECT_FALSE(isValid(mesh, rule, {{0}, {}}));
}

TEST(FactorAxesTest, ContractedFactorsLeavePartialResults) {
  ShardingRule rule;
  for (const char *name : {"m", "n", "k"})
    rule.addFactor(name, 12);
  rule.contract("k", Reduction::sum);
  EXPECT_EQ(contractedAxes(rule, {{0}, {}, {}})->first, Axes());
  EXPECT_EQ(contractedAxes(rule, {{0}, {}, {2, 1}})->first, (Axes{1, 2}));
  rule.contract("m", Reduction::max);
  EXPECT_EQ(contractedAxes(rule, {{0}, {}, {1}}), std::nullopt);
}

TEST(FactorAxesTest, AResultIsNotPendingOverAxesOfItsOwn) {
  Sharding rows(2), whole(2);
  rows.dims[1] = {2, 0};
  EXPECT_EQ(pendingIn(rows, {0, 1}), Axes{1});
  EXPECT_EQ(pendingIn(whole, {0, 1}), (Axes{0, 1}));
}

TEST(FactorAxesTest, WhatMayStayPending) {
  ShardingRule rule;
  Sharding sum(1), whole(1), max(1);
  sum.pending = max.pending = {0};
  max.kind = Reduction::max;
  Reduction kind;
  EXPECT_EQ(passingAxes(rule, {sum, sum}, kind), Axes());
  rule.linear = Linear::all;
  EXPECT_EQ(passingAxes(rule, {sum, sum}, kind), Axes{0});
  EXPECT_EQ(passingAxes(rule, {sum, whole}, kind), Axes());
  EXPECT_EQ(passingAxes(rule, {max, max}, kind), Axes());
  rule.linear = Linear::each;
  EXPECT_EQ(passingAxes(rule, {sum, whole}, kind), Axes{0});
  EXPECT_EQ(passingAxes(rule, {sum, sum}, kind), Axes());
  rule.linear = Linear::movement;
  EXPECT_EQ(passingAxes(rule, {max}, kind), Axes{0});
  EXPECT_EQ(kind, Reduction::max);
}
} // namespace
