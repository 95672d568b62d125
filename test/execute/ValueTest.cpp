// Values of operations at the limits of approximations and in special cases, compared with the C library and with
// expected numbers, through the compiled CPU path.
#include "runtime/core/Context.h"
#include "test/execute/JitContext.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;
using namespace divisi::test;

namespace {

class ValueTest : public testing::Test {
protected:
  /// Null, and a failure, if it does not compile.
  std::unique_ptr<JitFunction> compile(const std::string &text, bool gradients) {
    auto compiled = context.compile(text, gradients);
    if (!compiled) {
      ADD_FAILURE() << llvm::toString(compiled.takeError());
      return nullptr;
    }
    return std::move(*compiled);
  }
  /// The gradients of x and the updates for a scatter into four places.
  std::vector<std::vector<double>> scatterGradients(const std::string &combine, const std::vector<double> &x,
                                                    const std::vector<int64_t> &indices,
                                                    const std::vector<double> &updates) {
    auto f = compile(sample("scatter_elements", {"4xf64", "4xi64", "4xf64"}, "4xf64",
                            "dim = 0 : i64, combine = #graph<combine " + combine + ">")
                         .text,
                     true);
    if (!f)
      return {{}, {}};
    fill(f->inputs[0], x);
    fill(f->inputs[1], indices);
    fill(f->inputs[2], updates);
    f->run(&runtime);
    return {valuesOf<double>(f->outputs[1]), valuesOf<double>(f->outputs[2])};
  }
  template <typename T> static void fill(JitFunction::Tensor &tensor, const std::vector<T> &values) {
    tensor.bytes.assign((const char *)values.data(), (const char *)(values.data() + values.size()));
  }
  template <typename T> static std::vector<T> valuesOf(const JitFunction::Tensor &tensor) {
    return {(const T *)tensor.bytes.data(), (const T *)(tensor.bytes.data() + tensor.bytes.size())};
  }

  JitContext context;
  DivisiContext runtime{runtime::configureThreads(1)};
};

TEST_F(ValueTest, SineAndCosineOfAnyArgument) {
  std::vector<float> x = {0, 0.5, -3, 100, 1e4, -1e6, 1e7, 1e9, 1e12, 1e20, 3e38};
  for (bool sine : {true, false}) {
    auto f = compile(function({std::to_string(x.size()) + "xf32"}, std::to_string(x.size()) + "xf32",
                              std::string("%r = graph.") + (sine ? "sin" : "cos") + " %a : tensor<" +
                                  std::to_string(x.size()) + "xf32>"),
                     false);
    ASSERT_TRUE(f);
    fill(f->inputs[0], x);
    f->run(&runtime);
    std::vector<float> y = valuesOf<float>(f->outputs[0]);
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_NEAR(y[i], sine ? std::sin((double)x[i]) : std::cos((double)x[i]), 3e-7) << x[i];
  }
}

/// Scattered multiplications: [2, 0, 3, 0], times 5 and 0 at index 0, 7 at index 1 and 0 at index 3.
TEST_F(ValueTest, GradientsOfProductsWithZeros) {
  const std::vector<int64_t> indices = {0, 0, 1, 3};
  auto gradients = scatterGradients("mul", {2, 0, 3, 0}, indices, {5, 0, 7, 0});
  // The weight of each result in the loss.
  std::vector<double> weight = scatterGradients("add", {0, 0, 0, 0}, indices, {0, 0, 0, 0})[0];
  ASSERT_EQ(weight.size(), 4u);
  EXPECT_EQ(gradients[0], (std::vector<double>{0, 7 * weight[1], weight[2], 0}));
  EXPECT_EQ(gradients[1], (std::vector<double>{0, 10 * weight[0], 0, 0}));
}

/// NaN is the maximum and the minimum: the index is that of the first NaN.
TEST_F(ValueTest, ExtremaAreAtTheFirstNan) {
  for (const char *op : {"argmax", "argmin"}) {
    auto f = compile(sample(op, {"3x4xf32"}, "3xi64", "dim = 1 : i64").text, false);
    ASSERT_TRUE(f);
    fill<float>(f->inputs[0], {1, NAN, 5, -5, NAN, 2, NAN, 0, 3, 3, 3, 3});
    f->run(&runtime);
    EXPECT_EQ(valuesOf<int64_t>(f->outputs[0]), (std::vector<int64_t>{1, 0, 0})) << op;
  }
}

/// As PyTorch's max_pool1d(kernel_size=3): a NaN stays the maximum of its window, whatever comes behind it.
TEST_F(ValueTest, MaxPoolKeepsNan) {
  auto f = compile("func.func @forward(%x: tensor<9xf32>) -> (tensor<3xf32>, tensor<3xi32>) {\n"
                   "  %y, %p = graph.max_pool %x {window = array<i64: 3>, strides = array<i64: 3>, dilations = array<i64: 1>, "
                   "pads_low = array<i64: 0>} : (tensor<9xf32>) -> (tensor<3xf32>, tensor<3xi32>)\n"
                   "  return %y, %p : tensor<3xf32>, tensor<3xi32>\n}",
                   false);
  ASSERT_TRUE(f);
  fill<float>(f->inputs[0], {1, NAN, 5, NAN, 2, 1, 2, 3, 1});
  f->run(&runtime);
  std::vector<float> maxima = valuesOf<float>(f->outputs[0]);
  EXPECT_TRUE(std::isnan(maxima[0]) && std::isnan(maxima[1])) << maxima[0] << " " << maxima[1];
  EXPECT_EQ(maxima[2], 3);
  EXPECT_EQ(valuesOf<int32_t>(f->outputs[1]), (std::vector<int32_t>{1, 0, 1}));
}

/// Long chains must become several kernels, because recursion and compilers have limits.
TEST_F(ValueTest, LongChains) {
  std::string text = "func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %c = graph.constant dense<1.0> : "
                     "tensor<4xf32>\n  %0 = graph.add %x, %c : tensor<4xf32>\n";
  const int length = 20000;
  for (int i = 1; i < length; ++i)
    text += "  %" + std::to_string(i) + " = graph." + (i % 2 ? "relu" : "neg") + " %" + std::to_string(i - 1) +
            " : tensor<4xf32>\n";
  text += "  return %" + std::to_string(length - 1) + " : tensor<4xf32>\n}";
  auto f = compile(text, false);
  ASSERT_TRUE(f);
  fill<float>(f->inputs[0], {1, 2, 3, 4});
  f->run(&runtime);
  EXPECT_EQ(valuesOf<float>(f->outputs[0]), (std::vector<float>{0, 0, 0, 0})); // the second relu sees what is negative
}
} // namespace
