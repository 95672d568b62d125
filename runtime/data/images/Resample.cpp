#include "runtime/data/images/Resample.h"

#include <algorithm>
#include <cmath>

using namespace divisi::runtime;

namespace {
/// Bits after the point: 8 of a pixel's and two for sums are left of 32.
constexpr int precision = 32 - 8 - 2;

/// The weights of the pixels of a line that make each of some pixels of the resized line.
struct Weights {
  struct Span {
    int64_t first = 0, count = 0;
  };
  std::vector<Span> spans;     ///< of the pixels in the line
  std::vector<int32_t> values; ///< `most` for each span
  int64_t most = 0;

  /// For the pixels [from, from + count) of a line of `size` pixels that is resized to `newSize`.
  Weights(int64_t size, int64_t newSize, int64_t from, int64_t count) {
    double scale = static_cast<double>(size) / static_cast<double>(newSize), support = std::max(scale, 1.0);
    most = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
    spans.reserve(static_cast<size_t>(count));
    values.resize(static_cast<size_t>(count * most));
    std::vector<double> exact(static_cast<size_t>(most));
    for (int64_t i = 0; i < count; ++i) {
      double center = (static_cast<double>(from + i) + 0.5) * scale, sum = 0;
      int64_t first = std::max<int64_t>(0, static_cast<int64_t>(center - support + 0.5));
      int64_t last = std::min(size, static_cast<int64_t>(center + support + 0.5));
      for (int64_t x = first; x < last; ++x) {
        double distance = std::abs((static_cast<double>(x) - center + 0.5) * (1.0 / support));
        double weight = distance < 1.0 ? 1.0 - distance : 0.0;
        exact[static_cast<size_t>(x - first)] = weight;
        sum += weight;
      }
      spans.push_back({first, last - first});
      for (int64_t x = 0; x < last - first; ++x) {
        double weight = sum != 0 ? exact[static_cast<size_t>(x)] / sum : 0;
        values[static_cast<size_t>(i * most + x)] = static_cast<int32_t>(0.5 + weight * (1 << precision));
      }
    }
  }
  /// The first pixel that is used, and the one behind the last.
  int64_t first() const { return spans.front().first; }
  int64_t last() const { return spans.back().first + spans.back().count; }
  /// Makes another pixel the first of the line.
  void shift(int64_t by) {
    for (Span &span : spans)
      span.first -= by;
  }
};

uint8_t rounded(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> precision, 0, 255)); }

template <int channels> void resizeRow(const uint8_t *from, uint8_t *to, const Weights &weights) {
  const int32_t *w = weights.values.data();
  for (const Weights::Span &span : weights.spans) {
    int32_t sums[channels];
    std::fill(sums, sums + channels, 1 << (precision - 1));
    const uint8_t *in = from + span.first * channels;
    for (int64_t k = 0; k < span.count; ++k)
      for (int c = 0; c < channels; ++c)
        sums[c] += in[k * channels + c] * w[k];
    for (int c = 0; c < channels; ++c)
      *to++ = rounded(sums[c]);
    w += weights.most;
  }
}

/// Resizes the rows of `to`, whose first pixels are `from` on and `stride` bytes apart.
void resizeRows(const uint8_t *from, int64_t stride, const Weights &weights, Pixels &to) {
  for (int64_t y = 0; y < to.height; ++y)
    (to.channels == 1 ? resizeRow<1> : resizeRow<3>)(from + y * stride, to.row(y), weights);
}

/// The same of columns.
void resizeColumns(const uint8_t *from, int64_t stride, const Weights &weights, Pixels &to) {
  int64_t elements = to.width * to.channels;
  std::vector<int32_t> sums(static_cast<size_t>(elements));
  for (int64_t y = 0; y < to.height; ++y) {
    std::fill(sums.begin(), sums.end(), 1 << (precision - 1));
    const Weights::Span &span = weights.spans[static_cast<size_t>(y)];
    for (int64_t k = 0; k < span.count; ++k) {
      int32_t weight = weights.values[static_cast<size_t>(y * weights.most + k)];
      const uint8_t *in = from + (span.first + k) * stride;
      for (int64_t x = 0; x < elements; ++x)
        sums[static_cast<size_t>(x)] += in[x] * weight;
    }
    uint8_t *out = to.row(y);
    for (int64_t x = 0; x < elements; ++x)
      out[x] = rounded(sums[static_cast<size_t>(x)]);
  }
}
} // namespace

void divisi::runtime::resample(const Pixels &image, const Box &source, int64_t width, int64_t height, const Box &crop,
                               Pixels &to, Pixels &scratch) {
  int64_t channels = image.channels, stride = image.width * channels;
  Weights columns(source.width, width, crop.x, crop.width), rows(source.height, height, crop.y, crop.height);
  const uint8_t *from = image.row(source.y) + source.x * channels;
  // The first pass computes only what the second one reads.
  bool isTall = source.height > height && source.height - height > 2 * (source.width - width);
  int64_t first = (isTall ? columns : rows).first(), last = (isTall ? columns : rows).last();
  to.resize(crop.width, crop.height, channels);
  if (isTall) {
    scratch.resize(last - first, crop.height, channels);
    resizeColumns(from + first * channels, stride, rows, scratch);
    columns.shift(first);
    resizeRows(scratch.data.data(), scratch.width * channels, columns, to);
  } else {
    scratch.resize(crop.width, last - first, channels);
    resizeRows(from + first * stride, stride, columns, scratch);
    rows.shift(first);
    resizeColumns(scratch.data.data(), scratch.width * channels, rows, to);
  }
}
