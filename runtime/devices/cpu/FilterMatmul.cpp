#include "runtime/devices/cpu/FilterMatmul.h"
#include "runtime/core/Launch.h"
#include "runtime/core/Scratch.h"
#include "runtime/devices/cpu/ConvDirect.h"

#include <cstring>

using namespace divisi::runtime;

namespace {
/// Copies of x pay up to this number of output points for each filter; convolutions with strides are slower.
constexpr int64_t mostPoints = 4, mostStridedPoints = 16;

int64_t pointsOf(const int64_t (&sizes)[3]) { return sizes[0] * sizes[1] * sizes[2]; }

/// Elements that a thread copies, at least.
constexpr int64_t elementsOfThread = 1 << 15;
} // namespace

FilterMatmul::FilterMatmul(const DivisiConv &given)
    : conv(inThree(given)), points(conv.batch * pointsOf(conv.out)), taps(pointsOf(conv.kernel)) {}

/// Whether rows of x' are not those of x.
bool FilterMatmul::isCopied() const {
  for (int64_t d = 0; d < 3; ++d)
    if (conv.kernel[d] != 1 || conv.stride[d] != 1 || conv.pad_low[d] != 0 || conv.pad_high[d] != 0)
      return true;
  return false;
}

std::unique_ptr<FilterMatmul> FilterMatmul::create(const DivisiConv &given) {
  if (given.type != DIVISI_BF16 || !given.channels_last || given.groups != 1 || given.batch <= 0 || !MatmulPlan::hasUnits())
    return nullptr;
  std::unique_ptr<FilterMatmul> made(new FilterMatmul(given));
  const DivisiConv &conv = made->conv;
  const int64_t columns = made->taps * conv.in_channels;
  const int64_t most = conv.out_channels * (pointsOf(conv.stride) > 1 ? mostStridedPoints : mostPoints);
  if (made->points <= 0 || columns <= 0 || conv.out_channels <= 0 || (made->taps > 1 && made->points > most))
    return nullptr;
  DivisiGemm g = {};
  g.batch0 = g.batch1 = 1;
  g.m = conv.out_channels, g.n = columns, g.k = made->points;
  g.transpose_a = 1, g.lda = conv.out_channels, g.ldb = g.ldc = columns;
  g.type = g.result_type = DIVISI_BF16;
  if (!(made->plan = MatmulPlan::create(g)))
    return nullptr;
  auto reserve = [&](int64_t elements) { made->bytes += Scratch::roundUp(static_cast<size_t>(elements) * sizeof(uint16_t)); };
  if (made->isCopied())
    reserve(made->points * columns);
  made->sumsAt = made->bytes;
  if (made->taps > 1)
    reserve(conv.out_channels * columns);
  made->planAt = made->bytes;
  made->bytes += made->plan->scratchBytes();
  return made;
}

/// Writes x' from x, zeros where a filter reaches beyond it.
void FilterMatmul::copyRows(const uint16_t *x, uint16_t *rows, int threads) const {
  const auto &in = conv.in, &out = conv.out, &kernel = conv.kernel;
  const int64_t channels = conv.in_channels;
  // Where tap k of output o reads along dimension d.
  auto at = [&](int64_t d, int64_t o, int64_t k) { return o * conv.stride[d] - conv.pad_low[d] + k * conv.dilation[d]; };
  auto inside = [&](int64_t d, int64_t i) { return i >= 0 && i < in[d]; };
  forEachPiece(points, elementsOfThread / (taps * channels) + 1, threads, [&](int64_t begin, int64_t end) {
    for (int64_t point = begin; point < end; ++point) {
      const int64_t n = point / pointsOf(out);
      const int64_t o[3] = {point / (out[1] * out[2]) % out[0], point / out[2] % out[1], point % out[2]};
      uint16_t *to = rows + point * taps * channels;
      for (int64_t a = 0; a < kernel[0]; ++a)
        for (int64_t b = 0; b < kernel[1]; ++b)
          for (int64_t c = 0; c < kernel[2]; ++c, to += channels) {
            const int64_t i[3] = {at(0, o[0], a), at(1, o[1], b), at(2, o[2], c)};
            if (inside(0, i[0]) && inside(1, i[1]) && inside(2, i[2]))
              std::memcpy(to, x + (((n * in[0] + i[0]) * in[1] + i[1]) * in[2] + i[2]) * channels, channels * sizeof(uint16_t));
            else
              std::memset(to, 0, channels * sizeof(uint16_t));
          }
    }
  });
}

/// Writes filters [out_channels, in_channels, taps] from sums [out_channels, taps, in_channels].
void FilterMatmul::arrange(const uint16_t *sums, uint16_t *filters, int threads) const {
  const int64_t channels = conv.in_channels;
  forEachPiece(conv.out_channels, elementsOfThread / (taps * channels) + 1, threads, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o)
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t t = 0; t < taps; ++t)
          filters[(o * channels + c) * taps + t] = sums[(o * taps + t) * channels + c];
  });
}

void FilterMatmul::run(char *scratch, const std::array<void *, 3> &operands, int threads) {
  auto *rows = static_cast<uint16_t *>(operands[0]), *filters = static_cast<uint16_t *>(operands[2]), *sums = filters;
  if (isCopied()) {
    copyRows(rows, reinterpret_cast<uint16_t *>(scratch), threads);
    rows = reinterpret_cast<uint16_t *>(scratch);
  }
  if (taps > 1)
    sums = reinterpret_cast<uint16_t *>(scratch + sumsAt);
  plan->run(scratch + planAt, {operands[1], rows, sums});
  if (taps > 1)
    arrange(sums, filters, threads);
}
