#include "runtime/core/Context.h"
#include "runtime/core/Half.h"
#include "runtime/devices/cpu/ConvPlan.h"
#include "test/runtime/Util.h"

using namespace divisi::runtime;
using namespace divisi::test;

namespace {
/// One spatial dimension.
struct Dim {
  int64_t in, kernel, stride = 1, dilation = 1, low = 0, high = 0;
};
struct Case {
  const char *name;
  int64_t batch, groups, in, out;
  std::vector<Dim> dims;
};
void PrintTo(const Case &c, std::ostream *out) { *out << c.name; }

DivisiConv describe(const Case &c, bool last, int64_t type) {
  DivisiConv conv = {};
  conv.spatial = static_cast<int64_t>(c.dims.size());
  conv.batch = c.batch, conv.groups = c.groups, conv.in_channels = c.in, conv.out_channels = c.out;
  conv.channels_last = last, conv.type = type;
  for (size_t d = 0; d < c.dims.size(); ++d) {
    const Dim &x = c.dims[d];
    conv.in[d] = x.in, conv.kernel[d] = x.kernel, conv.stride[d] = x.stride, conv.dilation[d] = x.dilation;
    conv.pad_low[d] = x.low, conv.pad_high[d] = x.high;
    conv.out[d] = (x.in + x.low + x.high - (x.kernel - 1) * x.dilation - 1) / x.stride + 1;
  }
  return conv;
}

int64_t product(const int64_t *sizes, int64_t n) {
  int64_t p = 1;
  for (int64_t d = 0; d < n; ++d)
    p *= sizes[d];
  return p;
}

/// The definition: sums over all indices, one formula for the three functions.
struct Naive {
  const DivisiConv &c;

  static int64_t offset(const int64_t *size, int64_t n, const std::vector<int64_t> &at) {
    int64_t o = 0;
    for (int64_t d = 0; d < n; ++d)
      o = o * size[d] + at[d];
    return o;
  }
  int64_t place(int64_t n, int64_t channels, int64_t channel, const int64_t *size,
                const std::vector<int64_t> &at) const {
    int64_t points = product(size, c.spatial), o = offset(size, c.spatial, at);
    return c.channels_last ? (n * points + o) * channels + channel : (n * channels + channel) * points + o;
  }
  static std::vector<int64_t> unpack(int64_t index, const int64_t *size, int64_t n) {
    std::vector<int64_t> at(n);
    for (int64_t d = n - 1; d >= 0; index /= size[d], --d)
      at[d] = index % size[d];
    return at;
  }

  /// Calls body(index in x, index in w, index in y) for every multiplication.
  template <typename Body> void forEach(const Body &body) const {
    int64_t ig = c.in_channels / c.groups, og = c.out_channels / c.groups, taps = product(c.kernel, c.spatial);
    for (int64_t n = 0; n < c.batch; ++n)
      for (int64_t oc = 0; oc < c.out_channels; ++oc)
        for (int64_t ic = 0; ic < ig; ++ic)
          for (int64_t p = 0; p < product(c.out, c.spatial); ++p)
            for (int64_t t = 0; t < taps; ++t) {
              auto o = unpack(p, c.out, c.spatial), k = unpack(t, c.kernel, c.spatial);
              std::vector<int64_t> i(c.spatial);
              bool inside = true;
              for (int64_t d = 0; d < c.spatial; ++d) {
                i[d] = o[d] * c.stride[d] - c.pad_low[d] + k[d] * c.dilation[d];
                inside &= i[d] >= 0 && i[d] < c.in[d];
              }
              if (inside)
                body(place(n, c.in_channels, oc / og * ig + ic, c.in, i), (oc * ig + ic) * taps + t,
                     place(n, c.out_channels, oc, c.out, o));
            }
  }
};

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
  auto n = [](int64_t count) { return static_cast<size_t>(count); };
  size_t nx = n(conv.batch * conv.in_channels * product(conv.in, conv.spatial)),
         nw = n(conv.out_channels * (conv.in_channels / conv.groups) * product(conv.kernel, conv.spatial)),
         ny = n(conv.batch * conv.out_channels * product(conv.out, conv.spatial));
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
  // Multiples of 1/64 are exact in every type.
  auto numbers = [&](size_t count, unsigned seed) {
    auto values = randomNumbers(count, seed);
    for (float &v : values)
      v = std::round(v * 64) / 64;
    return values;
  };
  auto x = numbers(nx, 1), w = numbers(nw, 2), dy = numbers(ny, 3);
  std::vector<double> y(ny), dx(nx), dw(nw);
  Naive{conv}.forEach([&](int64_t i, int64_t j, int64_t k) {
    y[k] += double(x[i]) * w[j];
    dx[i] += double(dy[k]) * w[j];
    dw[j] += double(dy[k]) * x[i];
  });
  {
    SCOPED_TRACE("forward");
    expectResult<T>(divisi_conv_forward, conv, narrow(x), narrow(w), y, tolerance, threads);
  }
  {
    SCOPED_TRACE("input_grad");
    expectResult<T>(divisi_conv_input_grad, conv, narrow(dy), narrow(w), dx, tolerance, threads);
  }
  {
    SCOPED_TRACE("filter_grad");
    expectResult<T>(divisi_conv_filter_grad, conv, narrow(x), narrow(dy), dw, tolerance, threads);
  }
}

const Case cases[] = {
    {"line", 2, 1, 3, 5, {{11, 3}}},
    {"lineStridedPadded", 3, 1, 4, 6, {{17, 5, 2, 1, 2, 1}}},
    {"lineDilatedGroups", 2, 2, 4, 6, {{20, 3, 1, 3, 4, 2}}},
    {"plane", 2, 1, 3, 8, {{9, 3, 1, 1, 1, 1}, {7, 3, 1, 1, 1, 1}}},
    {"planeOne", 1, 1, 1, 1, {{5, 2}, {5, 3}}},
    {"planePoint", 2, 1, 16, 32, {{6, 1}, {6, 1}}},
    {"planePointStrided", 2, 1, 16, 32, {{8, 1, 2}, {8, 1, 2}}},
    {"planeWide", 2, 1, 32, 32, {{10, 3, 1, 1, 1, 1}, {10, 3, 1, 1, 1, 1}}},
    {"planeStrided", 2, 1, 16, 16, {{11, 3, 2, 1, 1, 1}, {12, 3, 2, 1, 1, 1}}},
    {"planeAsymmetric", 2, 1, 5, 7, {{9, 4, 2, 1, 0, 2}, {10, 3, 3, 1, 2, 1}}},
    {"planeDilated", 2, 1, 6, 4, {{13, 3, 1, 2, 2, 2}, {14, 2, 2, 3, 1, 0}}},
    {"planeGroups", 2, 3, 6, 9, {{8, 3, 1, 1, 1, 1}, {8, 3, 1, 1, 1, 1}}},
    {"planeDepthwise", 2, 16, 16, 16, {{9, 3, 1, 1, 1, 1}, {9, 3, 1, 1, 1, 1}}},
    {"planeDepthwiseTwo", 2, 4, 4, 8, {{9, 3, 2, 1, 1, 0}, {9, 3, 2, 1, 0, 1}}},
    {"planeUnusedEnd", 2, 1, 3, 4, {{10, 3, 3}, {11, 2, 4}}},
    {"space", 2, 1, 3, 4, {{5, 3, 1, 1, 1, 1}, {6, 2, 1, 1, 0, 1}, {7, 3, 2, 1, 1, 1}}},
    {"spaceGroupsDilated", 1, 2, 4, 4, {{6, 2, 1, 2, 1, 1}, {6, 3, 1, 1, 1, 0}, {5, 2, 2, 1, 0, 1}}},
    {"planeNegativePadding", 2, 1, 3, 4, {{9, 3, 1, 1, -1, 1}, {9, 3, 1, 1, 0, -2}}},
};

class Conv : public testing::TestWithParam<std::tuple<Case, bool>> {};

TEST_P(Conv, MatchesTheDefinition) {
  auto [c, last] = GetParam();
  check<float>(describe(c, last, DIVISI_F32), 2e-6);
  check<float>(describe(c, last, DIVISI_F32), 2e-6, 1);
}
/// The plain loops are slow: they are only for what the library does not support.
TEST_P(Conv, IsDoneByTheLibrary) {
  auto [c, last] = GetParam();
  bool possible = std::string_view(c.name) != "planeNegativePadding";
  DivisiConv conv = describe(c, last, DIVISI_F32);
  for (auto kind : {ConvKind::Forward, ConvKind::InputGrad, ConvKind::FilterGrad})
    EXPECT_EQ(possible ? ConvPlan::create(kind, conv) != nullptr : false, possible);
}
TEST_P(Conv, DoublePrecision) {
  auto [c, last] = GetParam();
  check<double>(describe(c, last, DIVISI_F64), 1e-14);
}
TEST_P(Conv, NarrowTypes) {
  auto [c, last] = GetParam();
  check<uint16_t>(describe(c, last, DIVISI_BF16), 5e-3);
  check<uint16_t>(describe(c, last, DIVISI_F16), 6e-4);
}
INSTANTIATE_TEST_SUITE_P(All, Conv, testing::Combine(testing::ValuesIn(cases), testing::Bool()), [](const auto &info) {
  return std::string(std::get<0>(info.param).name) + (std::get<1>(info.param) ? "Last" : "First");
});

/// Call sites of different sizes share one scratch memory, which no longer grows in the second step.
TEST(ConvScratch, DoesNotGrowAfterTheFirstStep) {
  DivisiConv small = describe(cases[3], false, DIVISI_F32), large = describe(cases[7], false, DIVISI_F32);
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

TEST(ConvErrors, GroupsMustDivideTheChannels) {
  DivisiConv conv = describe(cases[3], false, DIVISI_F32);
  conv.groups = 2;
  DivisiContext context(1);
  void *buffers[] = {nullptr, nullptr, nullptr};
  divisi_conv_forward(&context, &conv, buffers);
  EXPECT_TRUE(failsWith(context.error, "convolution: 2 groups"));
}
} // namespace
