#include "runtime/devices/cpu/ConvDirect.h"
#include "runtime/core/Launch.h"

using namespace divisi::runtime;

DivisiConv divisi::runtime::inThree(DivisiConv c) {
  for (int64_t d = c.spatial; d < 3; ++d) {
    c.in[d] = c.out[d] = c.kernel[d] = c.stride[d] = c.dilation[d] = 1;
    c.pad_low[d] = c.pad_high[d] = 0;
  }
  c.spatial = 3;
  return c;
}

namespace {
/// Strides of x or y along each dimension.
struct Layout {
  int64_t batch, channel, spatial[3], points;

  Layout(const DivisiConv &c, int64_t channels, const int64_t *size) {
    points = 1;
    int64_t step = c.channels_last ? channels : 1;
    for (int d = 2; d >= 0; --d) {
      spatial[d] = step;
      step *= size[d];
      points *= size[d];
    }
    channel = c.channels_last ? 1 : points;
    batch = points * channels;
  }
};

template <typename T> class Direct {
public:
  explicit Direct(const DivisiConv &conv)
      : c(inThree(conv)), in(c, c.in_channels, c.in), out(c, c.out_channels, c.out), inGroup(c.in_channels / c.groups),
        outGroup(c.out_channels / c.groups), taps(c.kernel[0] * c.kernel[1] * c.kernel[2]) {}

  void forward(const T *x, const T *w, T *y, int threads) const {
    forEachPiece(c.batch * c.out_channels, 1, threads, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t n = i / c.out_channels, oc = i % c.out_channels;
        T *plane = y + n * out.batch + oc * out.channel;
        clear(plane, c.out, out);
        for (int64_t ic = 0; ic < inGroup; ++ic)
          forEachTap(
              [&](int64_t o, int64_t k, int64_t p) { plane[o] += input(x, n, oc, ic)[p] * filter(w, oc, ic)[k]; });
      }
    });
  }

  void inputGrad(const T *dy, const T *w, T *dx, int threads) const {
    forEachPiece(c.batch * c.in_channels, 1, threads, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t n = i / c.in_channels, channel = i % c.in_channels, group = channel / inGroup;
        T *plane = dx + n * in.batch + channel * in.channel;
        clear(plane, c.in, in);
        for (int64_t oc = group * outGroup; oc < (group + 1) * outGroup; ++oc)
          forEachTap([&](int64_t o, int64_t k, int64_t p) {
            plane[p] += dy[n * out.batch + oc * out.channel + o] * filter(w, oc, channel % inGroup)[k];
          });
      }
    });
  }

  void filterGrad(const T *x, const T *dy, T *dw, int threads) const {
    forEachPiece(c.out_channels * inGroup, 1, threads, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t oc = i / inGroup, ic = i % inGroup;
        std::fill_n(dw + i * taps, taps, T(0));
        for (int64_t n = 0; n < c.batch; ++n)
          forEachTap([&](int64_t o, int64_t k, int64_t p) {
            dw[i * taps + k] += input(x, n, oc, ic)[p] * dy[n * out.batch + oc * out.channel + o];
          });
      }
    });
  }

private:
  const T *input(const T *x, int64_t n, int64_t oc, int64_t ic) const {
    return x + n * in.batch + (oc / outGroup * inGroup + ic) * in.channel;
  }
  const T *filter(const T *w, int64_t oc, int64_t ic) const { return w + (oc * inGroup + ic) * taps; }

  static void clear(T *plane, const int64_t *size, const Layout &layout) {
    for (int64_t a = 0; a < size[0]; ++a)
      for (int64_t b = 0; b < size[1]; ++b)
        for (int64_t e = 0; e < size[2]; ++e)
          plane[a * layout.spatial[0] + b * layout.spatial[1] + e * layout.spatial[2]] = 0;
  }

  /// Calls body(offset in y's plane, offset in the filter, offset in x's plane) for every multiplication of one plane.
  template <int dim = 0, typename Body>
  void forEachTap(const Body &body, int64_t o = 0, int64_t k = 0, int64_t p = 0) const {
    if constexpr (dim == 3)
      body(o, k, p);
    else
      for (int64_t i = 0; i < c.out[dim]; ++i)
        for (int64_t j = 0; j < c.kernel[dim]; ++j) {
          int64_t at = i * c.stride[dim] - c.pad_low[dim] + j * c.dilation[dim];
          if (at >= 0 && at < c.in[dim])
            forEachTap<dim + 1>(body, o + i * out.spatial[dim], k * c.kernel[dim] + j, p + at * in.spatial[dim]);
        }
  }

  const DivisiConv c;
  Layout in, out;
  int64_t inGroup, outGroup, taps;
};

template <typename T> void convDirectOf(ConvKind kind, const DivisiConv &conv, void *const *buffers, int threads) {
  Direct<T> direct(conv);
  const auto *first = static_cast<const T *>(buffers[0]), *second = static_cast<const T *>(buffers[1]);
  auto *result = static_cast<T *>(buffers[2]);
  if (kind == ConvKind::Forward)
    direct.forward(first, second, result, threads);
  else if (kind == ConvKind::InputGrad)
    direct.inputGrad(first, second, result, threads);
  else
    direct.filterGrad(first, second, result, threads);
}
} // namespace

void divisi::runtime::convDirect(ConvKind kind, const DivisiConv &conv, void *const *buffers, int threads) {
  if (conv.type == DIVISI_F64)
    convDirectOf<double>(kind, conv, buffers, threads);
  else
    convDirectOf<float>(kind, conv, buffers, threads);
}
