// Every differentiable operation against central finite differences, in double precision, through the compiled CPU
// path.
#include "dialects/Graph/Graph.h"
#include "runtime/core/Context.h"
#include "test/execute/JitContext.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;
using namespace divisi::test;

namespace {

/// Operations without a gradient, or whose gradient training does not need, and the straight-through estimator, whose
/// gradient is no derivative (test/execute/kinks.py).
const std::set<std::string> notDifferentiable = {
    "floor",     "ceil",           "round",          "sign",          "not",
    "is_nan",    "is_inf",         "compare",        "and",           "or",
    "xor",       "shift_left",     "shift_right",    "constant",      "iota",
    "argmax",    "argmin",         "random_uniform", "max_pool_grad", "attention_grad",
    "gelu_grad", "matmul_epilogue", "bitcast",       "straight_through"};

class GradientTest : public testing::TestWithParam<GradientSample> {
protected:
  void check(bool producers);

  JitContext context;
  DivisiContext runtime{runtime::configureThreads(1)};
};

TEST_P(GradientTest, AgreesWithFiniteDifferences) { check(/*producers=*/false); }
TEST_P(GradientTest, AgreesBehindProducers) { check(/*producers=*/true); }

void GradientTest::check(bool producers) {
  const GradientSample &sample = GetParam();
  auto compiled = context.compile(sample.text, /*gradients=*/true, nullptr, /*forGpu=*/false, producers);
  ASSERT_TRUE((bool)compiled) << llvm::toString(compiled.takeError());
  JitFunction &f = **compiled;
  uint64_t seed = 0;
  std::vector<size_t> floats;
  for (size_t i = 0; i < f.inputs.size(); ++i) {
    auto type = cast<RankedTensorType>(f.inputs[i].type);
    f.inputs[i].bytes.resize(graph::bytesOf(type));
    bool isFloat = isa<FloatType>(type.getElementType());
    for (int64_t k = 0; k < type.getNumElements(); ++k) {
      if (isFloat)
        ((double *)f.inputs[i].bytes.data())[k] = sample.low + (sample.high - sample.low) * number(seed++);
      else
        ((int64_t *)f.inputs[i].bytes.data())[k] = k % sample.modulo;
    }
    if (isFloat)
      floats.push_back(i);
  }
  auto loss = [&] {
    f.run(&runtime);
    return *(double *)f.outputs[0].bytes.data();
  };
  loss();
  ASSERT_FALSE(runtime.failed()) << runtime.error.message();
  std::vector<std::vector<double>> gradients;
  for (size_t i = 0; i < floats.size(); ++i) {
    const auto &bytes = f.outputs[1 + i].bytes;
    gradients.emplace_back((const double *)bytes.data(), (const double *)(bytes.data() + bytes.size()));
  }
  const double h = 1e-5;
  double largest = 0;
  for (size_t i = 0; i < floats.size(); ++i) {
    double *x = (double *)f.inputs[floats[i]].bytes.data();
    for (size_t k = 0; k < gradients[i].size(); ++k) {
      double old = x[k];
      x[k] = old + h;
      double above = loss();
      x[k] = old - h;
      double below = loss();
      x[k] = old;
      double expected = (above - below) / (2 * h);
      largest = std::max(largest, std::abs(expected));
      EXPECT_NEAR(gradients[i][k], expected, 1e-7 + 1e-6 * std::abs(expected)) << "argument " << i << ", element " << k;
    }
  }
  EXPECT_GT(largest, 1e-3) << "the sample shows nothing: its gradient vanishes";
}

INSTANTIATE_TEST_SUITE_P(Ops, GradientTest, testing::ValuesIn(gradientSamples()),
                         [](const auto &info) { return info.param.op + "_" + std::to_string(info.index); });

/// A new operation must have a sample here, or be in the list of those without gradient.
TEST(GradientCoverage, EveryOperationHasASample) {
  DialectRegistry registry;
  registerAll(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  std::set<std::string> seen = notDifferentiable;
  for (const GradientSample &sample : gradientSamples())
    seen.insert(sample.op);
  for (RegisteredOperationName op : context.getRegisteredOperations())
    if (op.getDialectNamespace() == "graph" &&
        op.getTypeID() != TypeID::get<graph::AccumulateOp>()) { // made behind autodiff
      EXPECT_TRUE(seen.count(op.stripDialect().str())) << op.getStringRef().str() << " has no sample";
    }
}
} // namespace
