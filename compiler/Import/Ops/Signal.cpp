#include "compiler/Import/Operators.h"

#include <cmath>
#include <numbers>

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;
using Shape = CheckedBuilder::Shape;

//===- DFT ----------------------------------------------------------------===//

namespace {
/// A discrete Fourier transform of `from` numbers to `to`: frequencies (or, inverse, positions) beyond the length are
/// left out.
struct Transform {
  int64_t from, to, length;
  bool inverse;
};
} // namespace

/// Larger tables of sines and cosines are refused.
static constexpr int64_t mostWaves = 1 << 24;

/// The factors of a transform, [from, to], by the angle 2 pi * from * to / length. With `halves`, the input has the
/// first half of the frequencies of a real signal, and each number but the first, and the last of an even length, also
/// stands for its conjugate.
static Value table(N &n, const Transform &t, Type element, double (*function)(double), double sign, bool halves) {
  SmallVector<double> values(t.from * t.to);
  for (int64_t i = 0; i < t.from; ++i)
    for (int64_t k = 0; k < t.to; ++k) {
      double angle = 2 * std::numbers::pi * (double)(i * k % t.length) / (double)t.length;
      double twice = halves && i > 0 && 2 * i < t.length ? 2 : 1;
      values[i * t.to + k] = sign * twice * function(angle) / (t.inverse ? (double)t.length : 1);
    }
  return n.numbers({t.from, t.to}, element, values);
}

/// Transforms x, [.., from, 1 or 2] with real and imaginary parts in the last dimension, along `axis`.
static Value transformed(N &n, Value x, int64_t axis, int64_t length, bool inverse, bool onesided) {
  auto given = shapeOf(x);
  int64_t rank = n.rankOf(x), parts = given.back();
  if (!n.isFloat(x) || axis == rank - 1 || (parts != 1 && parts != 2))
    fail("it transforms real or complex numbers along a dimension before the last, not ", shapeText(given));
  bool toReal = inverse && onesided;
  Transform t{given[axis], onesided && !inverse ? length / 2 + 1 : length, length, inverse};
  t.from = std::min(t.from, toReal ? length / 2 + 1 : length);
  if (length < 1 || t.from < 1 || t.to > mostWaves / t.from)
    fail("its length ", length, " is not valid");
  x = n.sliceDim(x, axis, 0, t.from);
  // [.., from, parts] with the axis behind the others: a product with the table is then one of matrices.
  Shape order = dimRange(0, rank - 1);
  order.erase(order.begin() + axis);
  order.push_back(axis);
  order.insert(order.begin(), rank - 1);
  Value moved = n.transpose(x, order);
  Shape shape(shapeOf(moved));
  int64_t rows = llvm::product_of(ArrayRef<int64_t>(shape).drop_front().drop_back());
  Value flat = n.reshape(moved, {parts, rows, t.from});
  auto part = [&](int64_t i) { return n.reshape(n.sliceDim(flat, 0, i, 1), {rows, t.from}); };
  Value cosine = table(n, t, n.elementOf(x), std::cos, 1, toReal);
  Value sine = table(n, t, n.elementOf(x), std::sin, inverse ? 1 : -1, toReal); // e^(-i a) has -sin a
  Value real = n.matmul(part(0), cosine), imaginary;
  if (parts == 2)
    real = n.sub(real, n.matmul(part(1), sine));
  if (!toReal) {
    imaginary = n.matmul(part(0), sine);
    if (parts == 2)
      imaginary = n.add(imaginary, n.matmul(part(1), cosine));
  }
  Shape one{1, rows, t.to};
  Value all = toReal ? n.reshape(real, one) : n.concat(ValueRange{n.reshape(real, one), n.reshape(imaginary, one)}, 0);
  shape.front() = toReal ? 1 : 2, shape.back() = t.to;
  Shape back;
  for (int64_t d : dimRange(0, rank - 1))
    back.push_back(d == axis ? rank - 1 : d < axis ? d + 1 : d);
  back.push_back(0);
  return n.transpose(n.reshape(all, shape), back);
}

static Results importDft(N &n) {
  Value x = n.in(0);
  bool inverse = n.integer("inverse", 0), onesided = n.integer("onesided", 0);
  int64_t named = n.opset < 20 ? n.integer("axis", 1) : n.has(2) ? n.integerInput(2, "axis") : -2;
  int64_t axis = n.axis(named, n.rankOf(x));
  int64_t size = shapeOf(x)[axis], length = inverse && onesided ? 2 * (size - 1) : size;
  return {transformed(n, x, axis, n.has(1) ? n.integerInput(1, "dft_length") : length, inverse, onesided)};
}

/// Transforms of frames of a signal, [batch, length, 1 or 2]. TorchScript's exporter leaves out a last dimension of 1.
static Results importStft(N &n) {
  Value x = n.in(0), window = n.maybe(2);
  if (n.rankOf(x) == 2)
    x = n.reshape(x, {shapeOf(x)[0], shapeOf(x)[1], 1});
  auto shape = shapeOf(x);
  if (shape.size() != 3)
    fail("its signal ", shapeText(shape), " has neither the dimensions [batch, length] nor [batch, length, 1 or 2]");
  if (window && n.rankOf(window) != 1)
    fail("its window ", shapeText(shapeOf(window)), " is not a vector");
  int64_t step = n.integerInput(1, "frame_step");
  int64_t length = n.has(3) ? n.integerInput(3, "frame_length") : window ? shapeOf(window)[0] : shape[1];
  if (step < 1 || length < 1 || length > shape[1])
    fail("frames of ", length, " every ", step, " do not fit the signal ", shapeText(shape));
  int64_t frames = (shape[1] - length) / step + 1;
  if (frames > mostWaves / length)
    fail("it has too many frames");
  Shape positions;
  for (int64_t f = 0; f < frames; ++f)
    for (int64_t i = 0; i < length; ++i)
      positions.push_back(f * step + i);
  Value framed = n.reshape(n.gather(x, n.indices(positions), 1), {shape[0], frames, length, shape[2]});
  if (window) {
    if (shapeOf(window) != ArrayRef<int64_t>(length))
      fail("its window ", shapeText(shapeOf(window)), " does not have ", length, " entries");
    framed = n.mul(framed, n.along(n.cast(window, n.elementOf(x)), shapeOf(framed), 2));
  }
  return {transformed(n, framed, 2, length, false, n.integer("onesided", 1))};
}

//===- MelWeightMatrix ----------------------------------------------------===//

/// Triangles over the bins of a spectrum, [dft_length / 2 + 1, bands], evenly spaced in mels: 2595 log10(1 + f / 700).
static Results importMelWeightMatrix(N &n) {
  int64_t bands = n.integerInput(0, "num_mel_bins"), length = n.integerInput(1, "dft_length");
  int64_t rate = n.integerInput(2, "sample_rate"), bins = length / 2 + 1;
  double low = n.numberInput(3, "lower_edge_hertz"), high = n.numberInput(4, "upper_edge_hertz");
  if (bands < 1 || length < 1 || rate < 1 || bands > mostWaves / bins || !(low >= 0) || !(high >= low) || !(high < 1e9))
    fail("its sizes or frequencies are not valid");
  auto mels = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  SmallVector<int64_t> edges;
  for (int64_t i = 0; i < bands + 2; ++i) {
    double mel = mels(low) + i * (mels(high) - mels(low)) / (double)(bands + 2);
    double edge = std::floor((double)(length + 1) * 700 * (std::pow(10, mel / 2595) - 1) / (double)rate);
    if (!(edge < bins))
      fail("the frequency ", high, " is above half of the sample rate ", rate);
    edges.push_back((int64_t)edge);
  }
  SmallVector<double> weights(bins * bands, 0);
  for (int64_t b = 0; b < bands; ++b) {
    int64_t left = edges[b], middle = edges[b + 1], right = edges[b + 2];
    for (int64_t j = left; j <= middle; ++j)
      weights[j * bands + b] = left == middle ? 1 : (double)(j - left) / (double)(middle - left);
    for (int64_t j = middle; j < right; ++j)
      weights[j * bands + b] = (double)(right - j) / (double)(right - middle);
  }
  return {n.numbers({bins, bands}, n.elementAttr("output_datatype", n.f32()), weights)};
}

llvm::ArrayRef<Operator> divisi::compiler::signalOperators() {
  static constexpr Operator rows[] = {
      {"DFT", 17, newest, importDft},
      {"MelWeightMatrix", 17, newest, importMelWeightMatrix},
      {"STFT", 17, newest, importStft},
  };
  return rows;
}
