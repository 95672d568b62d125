#include "runtime/core/Context.h"
#include "runtime/core/Half.h"
#include "runtime/devices/cpu/ConvPlan.h"
#include "runtime/devices/cpu/FilterMatmul.h"
#include "test/runtime/devices/ConvReference.h"

using namespace divisi::runtime;
using namespace divisi::test;

namespace {
using Service = void (*)(DivisiContext *, const DivisiConv *, void *const *);

/// Elements of a convolution's type.
template <typename T> std::vector<T> narrow(const std::vector<float> &values, int64_t type) {
  if constexpr (std::is_same_v<T, uint16_t>) {
    std::vector<uint16_t> bits;
    for (float value : values)
      bits.push_back(type == DIVISI_BF16 ? floatToBfloat(value) : floatToHalf(value));
    return bits;
  } else {
    return std::vector<T>(values.begin(), values.end());
  }
}
template <typename T> double errorOf(const std::vector<T> &got, int64_t type, const std::vector<double> &want) {
  if constexpr (std::is_same_v<T, uint16_t>) {
    std::vector<float> wide;
    for (uint16_t bits : got)
      wide.push_back(type == DIVISI_BF16 ? bfloatToFloat(bits) : halfToFloat(bits));
    return worstError(wide, want);
  } else {
    return worstError(got, want);
  }
}

/// Runs the service on `first` and `second` and compares with `want`; twice, because the second run takes other code
/// paths.
template <typename T>
void expectResult(Service service, const DivisiConv &conv, std::vector<T> first, std::vector<T> second,
                  const std::vector<double> &want, double tolerance, int threads) {
  configureThreads(threads);
  DivisiContext context(threads);
  for (int call = 0; call < 2; ++call) {
    std::vector<T> got(want.size(), T(77));
    void *buffers[] = {first.data(), second.data(), got.data()};
    service(&context, &conv, buffers);
    ASSERT_TRUE(succeeded(context.error));
    EXPECT_LT(errorOf(got, conv.type, want), tolerance);
  }
}

template <typename T> void check(const DivisiConv &conv, double tolerance, int threads = 2) {
  auto of = [&](const std::vector<float> &values) { return narrow<T>(values, conv.type); };
  ConvReference s(conv);
  {
    SCOPED_TRACE("forward");
    expectResult<T>(divisi_conv_forward, conv, of(s.x), of(s.w), s.y, tolerance, threads);
  }
  {
    SCOPED_TRACE("input_grad");
    expectResult<T>(divisi_conv_input_grad, conv, of(s.dy), of(s.w), s.dx, tolerance, threads);
  }
  {
    SCOPED_TRACE("filter_grad");
    expectResult<T>(divisi_conv_filter_grad, conv, of(s.x), of(s.dy), s.dw, tolerance, threads);
  }
}

class Conv : public testing::TestWithParam<std::tuple<ConvCase, bool>> {};

TEST_P(Conv, MatchesTheDefinition) {
  auto [c, last] = GetParam();
  check<float>(describeConv(c, last, DIVISI_F32), 2e-6);
  check<float>(describeConv(c, last, DIVISI_F32), 2e-6, 1);
}
/// The plain loops are slow: they are only for what the library does not support.
TEST_P(Conv, IsDoneByTheLibrary) {
  auto [c, last] = GetParam();
  bool possible = std::string_view(c.name) != "planeNegativePadding";
  DivisiConv conv = describeConv(c, last, DIVISI_F32);
  for (auto kind : {ConvKind::Forward, ConvKind::InputGrad, ConvKind::FilterGrad})
    EXPECT_EQ(possible ? ConvPlan::create(kind, conv) != nullptr : false, possible);
}
TEST_P(Conv, DoublePrecision) {
  auto [c, last] = GetParam();
  check<double>(describeConv(c, last, DIVISI_F64), 1e-14);
}
TEST_P(Conv, NarrowTypes) {
  auto [c, last] = GetParam();
  check<uint16_t>(describeConv(c, last, DIVISI_BF16), 5e-3);
  check<uint16_t>(describeConv(c, last, DIVISI_F16), 6e-4);
}
INSTANTIATE_TEST_SUITE_P(All, Conv, testing::Combine(testing::ValuesIn(convCases), testing::Bool()), [](const auto &info) {
  return std::string(std::get<0>(info.param).name) + (std::get<1>(info.param) ? "Last" : "First");
});

/// Filters of one point, of several (with copies of x), strides, dilation, padding that differs, and padding that only shifts.
TEST(FilterMatmuls, MatchTheDefinition) {
  if (!MatmulPlan::hasUnits())
    GTEST_SKIP() << "this processor has no units for bf16";
  const ConvCase cases[] = {{"point", 3, 1, 24, 40, {{5, 1}, {6, 1}}},
                            {"line", 2, 1, 16, 32, {{9, 3, 2, 1, 1, 0}}},
                            {"plane", 2, 1, 33, 64, {{5, 3, 1, 1, 1, 1}, {4, 2, 1, 2, 2, 1}}},
                            {"strided", 4, 1, 48, 64, {{8, 3, 2, 1, 1, 1}, {7, 1, 3}}},
                            {"volume", 1, 1, 20, 36, {{4, 2}, {5, 3, 2, 1, 0, 1}, {3, 3, 1, 1, 1, 1}}},
                            {"shifted", 2, 1, 16, 16, {{6, 1, 1, 1, 1, -1}, {4, 1}}},
                            {"cut", 2, 1, 17, 32, {{8, 3, 1, 1, -1, -2}, {4, 1}}}};
  for (const ConvCase &c : cases)
    for (int threads : {1, 3}) {
      SCOPED_TRACE(c.name);
      const DivisiConv conv = describeConv(c, /*last=*/true, DIVISI_BF16);
      configureThreads(threads);
      auto matmul = FilterMatmul::create(conv);
      ASSERT_NE(matmul, nullptr);
      ConvReference s(conv);
      std::vector<uint16_t> x = narrow<uint16_t>(s.x, conv.type), dy = narrow<uint16_t>(s.dy, conv.type), dw(s.dw.size(), 77);
      Scratch scratch;
      matmul->run(scratch.reserve(matmul->scratchBytes()), {x.data(), dy.data(), dw.data()}, threads);
      EXPECT_LT(errorOf(dw, conv.type, s.dw), 5e-3);
    }
}

/// Filters for which a convolution is faster, and what a matmul does not compute.
TEST(FilterMatmuls, AreNotMadeWhereConvolutionsAreFaster) {
  auto made = [](const ConvCase &c, bool last, int64_t type) { return FilterMatmul::create(describeConv(c, last, type)) != nullptr; };
  const ConvCase manyPoints = {"points", 8, 1, 16, 16, {{16, 3, 1, 1, 1, 1}, {16, 3, 1, 1, 1, 1}}}, point = {"point", 2, 1, 16, 16, {{4, 1}}};
  EXPECT_FALSE(made(manyPoints, true, DIVISI_BF16));
  EXPECT_FALSE(made({"grouped", 2, 2, 16, 16, {{4, 1}}}, true, DIVISI_BF16));
  EXPECT_FALSE(made(point, false, DIVISI_BF16));
  EXPECT_FALSE(made(point, true, DIVISI_F16));
  EXPECT_FALSE(made(point, true, DIVISI_F32));
  EXPECT_EQ(made(point, true, DIVISI_BF16), MatmulPlan::hasUnits());
}

/// Call sites of different sizes share one scratch memory, which no longer grows in the second step.
TEST(ConvScratch, DoesNotGrowAfterTheFirstStep) {
  DivisiConv small = describeConv(convCases[3], false, DIVISI_F32), large = describeConv(convCases[7], false, DIVISI_F32);
  std::vector<float> x(1 << 16), w(1 << 16), y(1 << 16);
  DivisiContext context(2);
  void *buffers[] = {x.data(), w.data(), y.data()};
  size_t after[2];
  for (size_t &size : after) {
    divisi_conv_forward(&context, &small, buffers);
    divisi_conv_forward(&context, &large, buffers);
    size = context.scratch.size();
  }
  EXPECT_GT(after[0], 0u);
  EXPECT_EQ(after[0], after[1]);
  EXPECT_EQ(context.cache.size(), 2u);
}

/// oneDNN's kernels for 1x1 filters with strides wrote behind their scratchpad where there are few channels.
TEST(ConvScratch, NothingIsWrittenBehindIt) {
  for (int64_t channels : {1, 3, 5, 7, 9, 15, 17}) {
    DivisiConv conv = describeConv({"strided", 8, 1, channels, 16, {{64, 1, 2}, {64, 1, 2}}}, true, DIVISI_F32);
    auto plan = ConvPlan::create(ConvKind::FilterGrad, conv);
    ASSERT_NE(plan, nullptr);
    ASSERT_TRUE(channels > 15 || !plan->kernel().starts_with("jit_1x1")) << channels << " channels: " << plan->kernel(); // what follows might not end
    std::vector<float> x(1 << 20), dy(1 << 20), dw(1 << 10);
    constexpr size_t guard = 1 << 20;
    const size_t bytes = plan->scratchBytes();
    std::vector<char> memory(bytes + guard + 64, 'g');
    char *scratch = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
    plan->run(scratch, {x.data(), dy.data(), dw.data()});
    EXPECT_EQ(std::count(scratch + bytes, scratch + bytes + guard - 64, 'g'), static_cast<ptrdiff_t>(guard - 64)) << channels;
  }
}

TEST(ConvErrors, GroupsMustDivideTheChannels) {
  DivisiConv conv = describeConv(convCases[3], false, DIVISI_F32);
  conv.groups = 2;
  DivisiContext context(1);
  void *buffers[] = {nullptr, nullptr, nullptr};
  divisi_conv_forward(&context, &conv, buffers);
  EXPECT_TRUE(failsWith(context.error, "convolution: 2 groups"));
}
} // namespace
