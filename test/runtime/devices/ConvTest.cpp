#include "runtime/core/Context.h"
#include "runtime/core/Half.h"
#include "runtime/devices/cpu/ConvPlan.h"
#include "test/runtime/devices/ConvReference.h"

using namespace divisi::runtime;
using namespace divisi::test;

namespace {
using Service = void (*)(DivisiContext *, const DivisiConv *, void *const *);

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
    if constexpr (std::is_same_v<T, uint16_t>) {
      std::vector<float> wide;
      for (uint16_t x : got)
        wide.push_back(conv.type == DIVISI_BF16 ? bfloatToFloat(x) : halfToFloat(x));
      EXPECT_LT(worstError(wide, want), tolerance);
    } else {
      EXPECT_LT(worstError(got, want), tolerance);
    }
  }
}

template <typename T> void check(const DivisiConv &conv, double tolerance, int threads = 2) {
  auto narrow = [&](const std::vector<float> &values) {
    if constexpr (std::is_same_v<T, uint16_t>) {
      std::vector<uint16_t> out;
      for (float v : values)
        out.push_back(conv.type == DIVISI_BF16 ? floatToBfloat(v) : floatToHalf(v));
      return out;
    } else {
      return std::vector<T>(values.begin(), values.end());
    }
  };
  ConvReference s(conv);
  {
    SCOPED_TRACE("forward");
    expectResult<T>(divisi_conv_forward, conv, narrow(s.x), narrow(s.w), s.y, tolerance, threads);
  }
  {
    SCOPED_TRACE("input_grad");
    expectResult<T>(divisi_conv_input_grad, conv, narrow(s.dy), narrow(s.w), s.dx, tolerance, threads);
  }
  {
    SCOPED_TRACE("filter_grad");
    expectResult<T>(divisi_conv_filter_grad, conv, narrow(s.x), narrow(s.dy), s.dw, tolerance, threads);
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
