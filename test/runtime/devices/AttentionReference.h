//===- AttentionReference.h - what attention is -----------------*- C++ -*-===//
#ifndef DIVISI_TEST_RUNTIME_DEVICES_ATTENTIONREFERENCE_H
#define DIVISI_TEST_RUNTIME_DEVICES_ATTENTIONREFERENCE_H

#include "divisi/abi.h"
#include "runtime/core/Half.h"
#include "test/runtime/Util.h"

#include <array>
#include <bit>
#include <numeric>

namespace divisi::test {

using Numbers = std::vector<double>;

/// 16-bit elements as in the buffers.
inline std::vector<uint16_t> narrow(const Numbers &x, int64_t type) {
  std::vector<uint16_t> bits;
  for (double value : x)
    bits.push_back(type == DIVISI_BF16 ? runtime::floatToBfloat(float(value)) : runtime::floatToHalf(float(value)));
  return bits;
}
inline Numbers widen(const std::vector<uint16_t> &bits, int64_t type) {
  Numbers x;
  for (uint16_t b : bits)
    x.push_back(type == DIVISI_BF16 ? runtime::bfloatToFloat(b) : runtime::halfToFloat(b));
  return x;
}
/// The largest relative error of one rounding.
inline double roundingOf(int64_t type) { return type == DIVISI_BF16 ? 0x1p-8 : 0x1p-11; }

/// Sizes: batch, heads, queries, keys, depth. A bias is broadcast over all queries.
inline DivisiAttention describeAttention(std::array<int64_t, 5> sizes, bool causal, int64_t type) {
  DivisiAttention p = {};
  p.batch = sizes[0], p.heads = sizes[1], p.queries = sizes[2], p.keys = sizes[3], p.depth = sizes[4];
  p.causal = causal, p.type = type;
  p.bias_batch = p.bias_heads = p.bias_queries = 1;
  p.scale = std::bit_cast<int64_t>(0.7 / std::sqrt(std::max(1.0, double(p.depth))));
  return p;
}

/// The operands of a call, exact in its type, and the results by definition.
struct AttentionReference {
  DivisiAttention p;
  Numbers q, k, v, grad, o, stats, dq, dk, dv;
  std::vector<float> bias;

  explicit AttentionReference(const DivisiAttention &params) : p(params) {
    auto random = [&](int64_t rows, unsigned seed) {
      return widen(narrow(randomNumbers<double>(p.batch * rows * p.heads * p.depth, seed), p.type), p.type);
    };
    q = random(p.queries, 1), k = random(p.keys, 2), v = random(p.keys, 3), grad = random(p.queries, 4);
    for (double &x : q)
      x *= 4; // far from uniform
    if (p.has_bias)
      bias = randomNumbers(p.bias_batch * p.bias_heads * p.bias_queries * p.keys, 5);
  }

  size_t at(int64_t extent, int64_t b, int64_t row, int64_t h) const {
    return ((b * extent + row) * p.heads + h) * p.depth;
  }
  double dot(const Numbers &x, size_t i, const Numbers &y, size_t j) const {
    double sum = 0;
    for (int64_t d = 0; d < p.depth; ++d)
      sum += x[i + d] * y[j + d];
    return sum;
  }
  double score(int64_t b, int64_t h, int64_t i, int64_t j) const {
    double s = std::bit_cast<double>(p.scale) * dot(q, at(p.queries, b, i, h), k, at(p.keys, b, j, h));
    auto index = [](int64_t extent, int64_t x) { return extent == 1 ? 0 : x; };
    int64_t row = (index(p.bias_batch, b) * p.bias_heads + index(p.bias_heads, h)) * p.bias_queries;
    return p.has_bias ? s + bias[(row + index(p.bias_queries, i)) * p.keys + j] : s;
  }
  int64_t kept(int64_t i) const { return p.causal ? std::min(p.keys, i + 1) : p.keys; }

  /// Calls body(b, h, i) for each query of each head.
  template <typename Body> void forEachQuery(const Body &body) const {
    for (int64_t b = 0; b < p.batch; ++b)
      for (int64_t h = 0; h < p.heads; ++h)
        for (int64_t i = 0; i < p.queries; ++i)
          body(b, h, i);
  }
  void forward() {
    o.assign(q.size(), 0), stats.clear();
    forEachQuery([&](int64_t b, int64_t h, int64_t i) {
      double sum = 0;
      for (int64_t j = 0; j < kept(i); ++j)
        sum += std::exp(score(b, h, i, j));
      for (int64_t j = 0; j < kept(i); ++j)
        for (int64_t d = 0; d < p.depth; ++d)
          o[at(p.queries, b, i, h) + d] += std::exp(score(b, h, i, j)) / sum * v[at(p.keys, b, j, h) + d];
      stats.push_back(std::log(sum));
    });
  }
  /// After forward().
  void backward() {
    dq.assign(q.size(), 0), dk.assign(k.size(), 0), dv.assign(v.size(), 0);
    auto stat = stats.begin();
    forEachQuery([&](int64_t b, int64_t h, int64_t i) {
      size_t row = at(p.queries, b, i, h);
      for (int64_t j = 0; j < kept(i); ++j) {
        size_t key = at(p.keys, b, j, h);
        double weight = std::exp(score(b, h, i, j) - *stat);
        double ds = weight * (dot(grad, row, v, key) - dot(grad, row, o, row)) * std::bit_cast<double>(p.scale);
        for (int64_t d = 0; d < p.depth; ++d) {
          dv[key + d] += weight * grad[row + d];
          dq[row + d] += ds * k[key + d];
          dk[key + d] += ds * q[row + d];
        }
      }
      ++stat;
    });
  }
  /// The function whose gradients are computed.
  double loss() {
    forward();
    return std::inner_product(o.begin(), o.end(), grad.begin(), 0.0);
  }
};

} // namespace divisi::test

#endif // DIVISI_TEST_RUNTIME_DEVICES_ATTENTIONREFERENCE_H
