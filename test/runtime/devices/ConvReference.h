//===- ConvReference.h - what a convolution is ------------------*- C++ -*-===//
#ifndef DIVISI_TEST_RUNTIME_DEVICES_CONVREFERENCE_H
#define DIVISI_TEST_RUNTIME_DEVICES_CONVREFERENCE_H

#include "divisi/abi.h"
#include "test/runtime/Util.h"

#include <cmath>

namespace divisi::test {

/// One spatial dimension.
struct ConvDim {
  int64_t in, kernel, stride = 1, dilation = 1, low = 0, high = 0;
};
struct ConvCase {
  const char *name;
  int64_t batch, groups, in, out;
  std::vector<ConvDim> dims;
};
inline void PrintTo(const ConvCase &c, std::ostream *out) { *out << c.name; }

inline DivisiConv describeConv(const ConvCase &c, bool last, int64_t type) {
  DivisiConv conv = {};
  conv.spatial = static_cast<int64_t>(c.dims.size());
  conv.batch = c.batch, conv.groups = c.groups, conv.in_channels = c.in, conv.out_channels = c.out;
  conv.channels_last = last, conv.type = type;
  for (size_t d = 0; d < c.dims.size(); ++d) {
    const ConvDim &x = c.dims[d];
    conv.in[d] = x.in, conv.kernel[d] = x.kernel, conv.stride[d] = x.stride, conv.dilation[d] = x.dilation;
    conv.pad_low[d] = x.low, conv.pad_high[d] = x.high;
    conv.out[d] = (x.in + x.low + x.high - (x.kernel - 1) * x.dilation - 1) / x.stride + 1;
  }
  return conv;
}

inline int64_t product(const int64_t *sizes, int64_t n) {
  int64_t p = 1;
  for (int64_t d = 0; d < n; ++d)
    p *= sizes[d];
  return p;
}

/// The definition: sums over all indices, one formula for the three functions.
struct ConvReference {
  DivisiConv c;
  std::vector<float> x, w, dy; ///< exact in the type: of 16 bits, multiples of 1/64; others are not exact in TF32
  std::vector<double> y, dx, dw;

  explicit ConvReference(const DivisiConv &conv) : c(conv) {
    float unit = c.type == DIVISI_BF16 || c.type == DIVISI_F16 ? 64 : 1 << 20;
    auto numbers = [&](int64_t count, unsigned seed) {
      auto values = randomNumbers(count, seed);
      for (float &v : values)
        v = std::round(v * unit) / unit;
      return values;
    };
    x = numbers(c.batch * c.in_channels * product(c.in, c.spatial), 1);
    w = numbers(c.out_channels * (c.in_channels / c.groups) * product(c.kernel, c.spatial), 2);
    dy = numbers(c.batch * c.out_channels * product(c.out, c.spatial), 3);
    y.resize(dy.size()), dx.resize(x.size()), dw.resize(w.size());
    forEach([&](int64_t i, int64_t j, int64_t k) {
      y[k] += double(x[i]) * w[j];
      dx[i] += double(dy[k]) * w[j];
      dw[j] += double(dy[k]) * x[i];
    });
  }

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

inline const ConvCase convCases[] = {
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

} // namespace divisi::test

#endif // DIVISI_TEST_RUNTIME_DEVICES_CONVREFERENCE_H
