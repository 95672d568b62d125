#include "dialects/Graph/Graph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace divisi;
using dist::ShardingRule;

namespace {

class ShardingRules : public testing::Test {
protected:
  ShardingRules() { context.loadDialect<graph::GraphDialect, func::FuncDialect>(); }

  /// The first operation of a function with these arguments and this body.
  Operation *parse(const std::string &arguments, const std::string &body) {
    std::string text = "func.func @f(" + arguments + ") {\n" + body + "\nreturn\n}";
    module = parseSourceString<ModuleOp>(text, &context);
    return module ? &(*module->getOps<func::FuncOp>().begin()).getBody().front().front() : nullptr;
  }
  std::string rule(const std::string &arguments, const std::string &body) {
    Operation *op = parse(arguments, body);
    if (!op)
      return "does not parse";
    std::string text = cast<dist::ShardingRuleInterface>(op).getShardingRule().str();
    EXPECT_EQ(ShardingRule(text, op).str(), text);
    return text;
  }
  std::string reshape(const std::string &from, const std::string &to) {
    return rule("%x: tensor<" + from + "xf32>",
                "%0 = graph.reshape %x : (tensor<" + from + "xf32>) -> tensor<" + to + "xf32>");
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
};

TEST_F(ShardingRules, ReadsText) {
  Operation *op = parse("%x: tensor<4x8xf32>, %y: tensor<8x2xf32>",
                        "%0 = graph.matmul %x, %y : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>");
  ASSERT_TRUE(op);
  ShardingRule rule("m k, k n -> m n", op);
  EXPECT_EQ(rule.str(), "m k, k n -> m n | m=4 k=8 n=2");
  EXPECT_EQ(rule.contract("k", dist::Reduction::sum).str(), "m k, k n -> m n | m=4 k=8 n=2 | sum k");
  EXPECT_EQ(rule.whole("n").str(), "m k, k n -> m n | m=4 k=8 n=2 | sum k | whole n");
  EXPECT_EQ(ShardingRule("m ., * -> m .", op).str(), "m ., . . -> m . | m=4");
}

/// The clauses of a rule's text that no operation has.
TEST_F(ShardingRules, ReadsClauses) {
  Operation *op = parse("%x: tensor<4x8xf32>, %y: tensor<4x8xf32>", "%0 = graph.add %x, %y : tensor<4x8xf32>");
  ASSERT_TRUE(op);
  ShardingRule rule(
      "m g*k, m . -> m g*k | m=4 g=2 k=4 | max m | whole g | indexed k | windowed m | least m=2 | linear all"
      " | accumulates #1 | zero",
      op);
  EXPECT_EQ(rule.operands[0], (ShardingRule::Dims{{0}, {1, 2}}));
  EXPECT_EQ(rule.operands[1], (ShardingRule::Dims{{0}, {}}));
  EXPECT_EQ(rule.factors[0].size, 4);
  EXPECT_EQ(rule.factors[0].reduction, dist::Reduction::max);
  EXPECT_TRUE(rule.factors[0].windowed && rule.factors[0].least == 2 && !rule.factors[0].whole);
  EXPECT_TRUE(rule.factors[1].whole && !rule.factors[1].indexed && rule.factors[1].size == 2);
  EXPECT_TRUE(rule.factors[2].indexed && !rule.factors[2].windowed && rule.factors[2].least == 1);
  EXPECT_EQ(rule.linear, dist::Linear::all);
  EXPECT_EQ(rule.accumulator, 1);
  EXPECT_TRUE(rule.zero);
}

TEST_F(ShardingRules, Matmul) {
  EXPECT_EQ(rule("%x: tensor<3x8x4xf32>, %y: tensor<3x2x8xf32>",
                 "%0 = graph.matmul %x, %y {transpose_lhs, transpose_rhs} : (tensor<3x8x4xf32>, tensor<3x2x8xf32>) "
                 "-> tensor<3x4x2xf32>"),
            "b0 k m, b0 n k -> b0 m n | b0=3 k=8 m=4 n=2 | sum k | linear each");
}

TEST_F(ShardingRules, Convolution) {
  std::string attributes = "{strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads_low = array<i64: 1, 1>, "
                           "pads_high = array<i64: 1, 1>, groups = GROUPS : i64}";
  auto conv = [&](const char *filter, const char *groups) {
    std::string with = attributes;
    with.replace(with.find("GROUPS"), 6, groups);
    std::string types = std::string("(tensor<2x4x8x8xf32>, tensor<") + filter + ">) -> tensor<2x6x8x8xf32>";
    return rule(std::string("%x: tensor<2x4x8x8xf32>, %f: tensor<") + filter + ">",
                "%0 = graph.conv %x, %f " + with + " : " + types);
  };
  EXPECT_EQ(conv("6x4x3x3xf32", "1"),
            "n g*i h0 h1, g*o i . . -> n g*o h0 h1 | n=2 g=1 i=4 o=6 h0=8 h1=8 | sum i | windowed h0 h1 | linear each");
  EXPECT_EQ(conv("6x2x3x3xf32", "2"),
            "n g*i h0 h1, g*o i . . -> n g*o h0 h1 | n=2 g=2 i=2 o=3 h0=8 h1=8 | sum i | windowed h0 h1 | linear each");
}

TEST_F(ShardingRules, Reductions) {
  std::string x = "%x: tensor<4x6x5xf32>", types = " : (tensor<4x6x5xf32>) -> tensor<4x5xf32>";
  EXPECT_EQ(rule(x, "%0 = graph.reduce_sum %x {dims = array<i64: 1>}" + types),
            "d0 d1 d2 -> d0 d2 | d0=4 d1=6 d2=5 | sum d1 | linear all");
  EXPECT_EQ(rule(x, "%0 = graph.reduce_max %x {dims = array<i64: 1>}" + types),
            "d0 d1 d2 -> d0 d2 | d0=4 d1=6 d2=5 | max d1");
  EXPECT_EQ(rule(x, "%0 = graph.reduce_prod %x {dims = array<i64: 1>}" + types),
            "d0 d1 d2 -> d0 d2 | d0=4 d1=6 d2=5 | whole d1");
}

TEST_F(ShardingRules, MovementOfDimensions) {
  EXPECT_EQ(rule("%x: tensor<4x6x5xf32>", "%0 = graph.transpose %x {permutation = array<i64: 2, 0, 1>} : "
                                          "(tensor<4x6x5xf32>) -> tensor<5x4x6xf32>"),
            "d1 d2 d0 -> d0 d1 d2 | d0=5 d1=4 d2=6 | linear movement");
  EXPECT_EQ(rule("%x: tensor<6x1xf32>", "%0 = graph.broadcast %x {dims = array<i64: 1, 2>} : "
                                        "(tensor<6x1xf32>) -> tensor<4x6x5xf32>"),
            "d1 . -> d0 d1 d2 | d0=4 d1=6 d2=5 | linear movement");
  EXPECT_EQ(rule("%x: tensor<4x6xf32>", "%0 = graph.slice %x {starts = array<i64: 0, 5>, steps = array<i64: 1, -1>} : "
                                        "(tensor<4x6xf32>) -> tensor<4x6xf32>"),
            "d0 d1 -> d0 d1 | d0=4 d1=6 | whole d1 | linear movement");
  EXPECT_EQ(rule("%x: tensor<4x6xf32>", "%0 = graph.slice %x {starts = array<i64: 0, 2>, steps = array<i64: 1, 1>} : "
                                        "(tensor<4x6xf32>) -> tensor<4x3xf32>"),
            "d0 . -> d0 . | d0=4 | linear movement");
}

TEST_F(ShardingRules, FactorsOfReshape) {
  EXPECT_EQ(reshape("8x6", "48"), "f0 f1 -> f0*f1 | f0=8 f1=6 | linear movement");
  EXPECT_EQ(reshape("48", "8x6"), "f0*f1 -> f0 f1 | f0=8 f1=6 | linear movement");
  EXPECT_EQ(reshape("8x6", "4x2x6"), "f0*f1 f2 -> f0 f1 f2 | f0=4 f1=2 f2=6 | linear movement");
  EXPECT_EQ(reshape("4x6", "12x2"), "f0 f1*f2 -> f0*f1 f2 | f0=4 f1=3 f2=2 | linear movement");
  EXPECT_EQ(reshape("1x8x1x6", "8x6x1"), ". f0 . f1 -> f0 f1 . | f0=8 f1=6 | linear movement");
  EXPECT_EQ(reshape("4x6", "6x4"), ". . -> . . | linear movement"); // neither nests in the other
  EXPECT_EQ(reshape("5x4x6", "5x6x4"),
            "f0 . . -> f0 . . | f0=5 | linear movement");                        // what comes before is still a factor
  EXPECT_EQ(reshape("8x3", "4x3x2"), "f0 . -> f0 . . | f0=4 | linear movement"); // the major part of 8
}

/// Each factor is the same digit of an element's index on both sides.
TEST_F(ShardingRules, FactorsOfReshapeNameTheSameElements) {
  const char *shapes[] = {"24", "2x12", "12x2", "4x6", "6x4", "3x8", "8x3", "2x3x4", "4x3x2", "2x2x6", "1x24", "3x1x8"};
  for (const char *from : shapes)
    for (const char *to : shapes) {
      SCOPED_TRACE(std::string(from) + " to " + to);
      reshape(from, to);
      Operation *op = &(*module->getOps<func::FuncOp>().begin()).getBody().front().front();
      ShardingRule rule = cast<dist::ShardingRuleInterface>(op).getShardingRule();
      auto digit = [&](int factor, const ShardingRule::Dims &dims, ArrayRef<int64_t> shape, int64_t element) {
        for (int64_t d = (int64_t)shape.size() - 1; d >= 0; --d) {
          int64_t index = element % shape[d], rest = shape[d];
          element /= shape[d];
          for (int f : dims[d]) {
            rest /= rule.factors[f].size;
            if (f == factor)
              return index / rest % rule.factors[f].size;
          }
        }
        return (int64_t)-1;
      };
      ArrayRef<int64_t> a = graph::shapeOf(op->getOperand(0)), b = graph::shapeOf(op->getResult(0));
      for (int factor = 0; factor < (int)rule.factors.size(); ++factor)
        for (int64_t element = 0; element < 24; ++element) {
          int64_t left = digit(factor, rule.operands[0], a, element);
          ASSERT_GE(left, 0);
          ASSERT_EQ(left, digit(factor, rule.results[0], b, element));
        }
    }
}

} // namespace
