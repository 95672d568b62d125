// Values of operations where approximations and special cases end, against the C library and by hand, through the
// compiled CPU path.
#include "compiler/Jit.h"
#include "compiler/Pipeline.h"
#include "runtime/core/Context.h"
#include "test/execute/GradientSamples.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;
using namespace divisi::test;

namespace {

class ValueTest : public testing::Test {
protected:
  ValueTest() : context(registry(), MLIRContext::Threading::DISABLED), runtime(runtime::configureThreads(1)) {
    context.loadAllAvailableDialects();
  }
  static DialectRegistry registry() {
    DialectRegistry result;
    registerAll(result);
    return result;
  }
  /// @forward of a text, with its gradients behind the loss if they are wanted; null, and a failure, if it does not
  /// compile.
  std::unique_ptr<JitFunction> compile(const std::string &text, bool gradients) {
    auto module = parseSourceString<ModuleOp>(text, &context);
    if (!module) {
      ADD_FAILURE() << text;
      return nullptr;
    }
    if (gradients)
      addGradients(module->lookupSymbol<func::FuncOp>("forward"));
    auto compiled = JitFunction::compile(*module);
    if (!compiled) {
      ADD_FAILURE() << llvm::toString(compiled.takeError());
      return nullptr;
    }
    return std::move(*compiled);
  }
  template <typename T> static void fill(JitFunction::Tensor &tensor, const std::vector<T> &values) {
    tensor.bytes.assign((const char *)values.data(), (const char *)(values.data() + values.size()));
  }
  template <typename T> static std::vector<T> valuesOf(const JitFunction::Tensor &tensor) {
    return {(const T *)tensor.bytes.data(), (const T *)(tensor.bytes.data() + tensor.bytes.size())};
  }

  MLIRContext context;
  DivisiContext runtime;
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

/// Scattered products: [2, 0, 3, 0], times 5 and 0 at the first, 7 at the second and 0 at the last place.
TEST_F(ValueTest, GradientsOfProductsWithZeros) {
  auto f = compile(
      sample("scatter_elements", {"4xf64", "4xi64", "4xf64"}, "4xf64", "dim = 0 : i64, combine = #graph<combine mul>")
          .text,
      true);
  ASSERT_TRUE(f);
  fill<double>(f->inputs[0], {2, 0, 3, 0});
  fill<int64_t>(f->inputs[1], {0, 0, 1, 3});
  fill<double>(f->inputs[2], {5, 0, 7, 0});
  f->run(&runtime);
  // How much the loss weighs each result is that of the third place, which nothing is scattered to, in the other case.
  std::vector<double> x = valuesOf<double>(f->outputs[1]), updates = valuesOf<double>(f->outputs[2]);
  auto ones = compile(
      sample("scatter_elements", {"4xf64", "4xi64", "4xf64"}, "4xf64", "dim = 0 : i64, combine = #graph<combine add>")
          .text,
      true);
  ASSERT_TRUE(ones);
  fill<double>(ones->inputs[0], {0, 0, 0, 0});
  fill<int64_t>(ones->inputs[1], {0, 0, 1, 3});
  fill<double>(ones->inputs[2], {0, 0, 0, 0});
  ones->run(&runtime);
  std::vector<double> weight = valuesOf<double>(ones->outputs[1]); // of each result
  EXPECT_EQ(x, (std::vector<double>{0, 7 * weight[1], weight[2], 0}));
  EXPECT_EQ(updates, (std::vector<double>{0, 10 * weight[0], 0, 0}));
}

/// Long chains become several kernels: recursion and compilers have their limits.
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
