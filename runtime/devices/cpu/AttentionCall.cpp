#include "runtime/devices/cpu/AttentionCall.h"
#include "runtime/core/Scratch.h"
#include "runtime/core/Status.h"
#include "runtime/devices/cpu/Convert.h"

#include <algorithm>
#include <bit>
#include <cblas.h>
#include <climits>
#include <cmath>
#include <limits>
#include <stdexcept>

using namespace divisi::runtime;

/// The number of queries whose scores are in memory at a time.
static constexpr int64_t blockRows = 64;

/// Dense floats, row-major.
struct AttentionCall::Matrix {
  float *data;
  int64_t rows, cols;

  float *row(int64_t r) const { return data + r * cols; }
  int stride() const { return static_cast<int>(std::max<int64_t>(cols, 1)); }
};

/// The matrices of one head and of one block of its queries, in the scratch memory of a thread.
struct AttentionCall::Memory {
  Memory(AttentionKind kind, const DivisiAttention &p, uintptr_t scratch) {
    auto take = [&](int64_t rows, int64_t cols) {
      auto *data = reinterpret_cast<float *>(scratch + bytes);
      bytes += Scratch::roundUp(static_cast<size_t>(rows * cols) * sizeof(float));
      return Matrix{data, rows, cols};
    };
    int64_t rows = std::min(blockRows, p.queries);
    k = take(p.keys, p.depth), v = take(p.keys, p.depth);
    q = take(rows, p.depth), o = take(rows, p.depth), s = take(rows, p.keys);
    if (kind == AttentionKind::Forward)
      return;
    dk = take(p.keys, p.depth), dv = take(p.keys, p.depth);
    grad = take(rows, p.depth), ds = take(rows, p.keys);
  }

  Matrix k, v, q, o, s;
  Matrix dk = {}, dv = {}, grad = {}, ds = {};
  size_t bytes = 0;
};

/// Some queries of one head, with the keys that are not masked for all of them.
struct AttentionCall::Block {
  int64_t head, first, rows, keys;
  bool causal;

  /// The number of keys that are not masked for the r-th query.
  int64_t kept(int64_t r) const { return causal ? std::min(keys, first + r + 1) : keys; }
};

namespace {
/// In the library's terms: whether the operands of a GEMM are transposed.
constexpr auto plain = CblasNoTrans, transposed = CblasTrans;

/// c = alpha * op(a) op(b) + beta * c.
template <typename Matrix>
void multiply(float alpha, Matrix a, CBLAS_TRANSPOSE opA, Matrix b, CBLAS_TRANSPOSE opB, float beta, Matrix c) {
  auto depth = static_cast<int>(opA == transposed ? a.rows : a.cols);
  cblas_sgemm(CblasRowMajor, opA, opB, static_cast<int>(c.rows), static_cast<int>(c.cols), depth, alpha, a.data,
              a.stride(), b.data, b.stride(), beta, c.data, c.stride());
}

/// Replaces scores by probabilities; returns log(sum of e^x).
float softmax(float *x, int64_t count) {
  float largest = -std::numeric_limits<float>::infinity(), sum = 0;
  for (int64_t i = 0; i < count; ++i)
    largest = std::max(largest, x[i]);
  float shift = std::isinf(largest) ? 0 : largest;
  for (int64_t i = 0; i < count; ++i)
    sum += x[i] = std::exp(x[i] - shift);
  for (int64_t i = 0; i < count; ++i)
    x[i] /= sum;
  return shift + std::log(sum);
}

void check(const DivisiAttention &p) {
  if (p.type != DIVISI_BF16 && p.type != DIVISI_F16)
    throw std::runtime_error("operands must be bf16 or f16");
  if (p.keys > INT_MAX || p.depth > INT_MAX)
    throw std::runtime_error(concat(p.keys, " keys of ", p.depth, " numbers are not supported"));
  auto fits = [](int64_t size, int64_t extent) { return size == 1 || size == extent; };
  if (p.has_bias && !(fits(p.bias_batch, p.batch) && fits(p.bias_heads, p.heads) && fits(p.bias_queries, p.queries)))
    throw std::runtime_error(concat("a bias for ", p.bias_batch, " x ", p.bias_heads, " x ", p.bias_queries,
                                    " queries does not fit ", p.batch, " x ", p.heads, " x ", p.queries));
}
} // namespace

AttentionCall::AttentionCall(AttentionKind kind, const DivisiAttention &params, void *const *buffers)
    : kind(kind), p(params), scale(static_cast<float>(std::bit_cast<double>(params.scale))) {
  check(p);
  auto next = [&] { return static_cast<uint16_t *>(*buffers++); };
  q = next(), k = next(), v = next();
  bias = p.has_bias ? static_cast<const float *>(*buffers++) : nullptr;
  o = next(), stats = static_cast<float *>(*buffers++);
  if (kind == AttentionKind::Gradient)
    grad = next(), dq = next(), dk = next(), dv = next();
}

size_t AttentionCall::scratchBytes() const { return Memory(kind, p, 0).bytes; }

/// The offset of a row of an operand [batch, extent, heads, depth].
int64_t AttentionCall::at(int64_t extent, int64_t head, int64_t row) const {
  return ((head / p.heads * extent + row) * p.heads + head % p.heads) * p.depth;
}

void AttentionCall::load(const uint16_t *x, int64_t extent, int64_t head, int64_t first, Matrix to) const {
  for (int64_t r = 0; r < to.rows; ++r)
    convertToFloat(x + at(extent, head, first + r), p.type, to.row(r), p.depth);
}

void AttentionCall::store(Matrix from, uint16_t *x, int64_t extent, int64_t head, int64_t first) const {
  for (int64_t r = 0; r < from.rows; ++r)
    convertFromFloat(from.row(r), x + at(extent, head, first + r), p.type, p.depth);
}

void AttentionCall::run(int64_t head, char *scratch) const {
  bool gradient = kind == AttentionKind::Gradient;
  Memory m(kind, p, reinterpret_cast<uintptr_t>(scratch));
  load(k, p.keys, head, 0, m.k);
  load(v, p.keys, head, 0, m.v);
  for (Matrix sum : {m.dk, m.dv})
    std::fill_n(sum.data, sum.rows * sum.cols, 0.0f);
  for (int64_t first = 0; first < p.queries; first += blockRows) {
    Block block = {head, first, std::min(blockRows, p.queries - first), p.keys, p.causal != 0};
    block.keys = block.kept(block.rows - 1);
    for (Matrix *x : {&m.q, &m.o, &m.grad, &m.s, &m.ds})
      x->rows = block.rows;
    for (Matrix *x : {&m.k, &m.v, &m.dk, &m.dv})
      x->rows = block.keys;
    m.s.cols = m.ds.cols = block.keys;
    load(q, p.queries, head, first, m.q);
    score(m, block);
    gradient ? backward(m, block) : forward(m, block);
  }
  if (!gradient)
    return;
  m.dk.rows = m.dv.rows = p.keys;
  store(m.dk, dk, p.keys, head, 0);
  store(m.dv, dv, p.keys, head, 0);
}

/// s = scale * q k^T + bias.
void AttentionCall::score(const Memory &m, const Block &block) const {
  multiply(scale, m.q, plain, m.k, transposed, 0, m.s);
  if (!bias)
    return;
  int64_t i = p.bias_batch == 1 ? 0 : block.head / p.heads, j = p.bias_heads == 1 ? 0 : block.head % p.heads;
  for (int64_t r = 0; r < block.rows; ++r) {
    int64_t row = p.bias_queries == 1 ? 0 : block.first + r;
    const float *add = bias + ((i * p.bias_heads + j) * p.bias_queries + row) * p.keys;
    for (int64_t c = 0; c < block.keys; ++c)
      m.s.row(r)[c] += add[c];
  }
}

/// Computes o and stats from the scores.
void AttentionCall::forward(const Memory &m, const Block &block) const {
  for (int64_t r = 0; r < block.rows; ++r) {
    float *s = m.s.row(r);
    stats[block.head * p.queries + block.first + r] = softmax(s, block.kept(r));
    std::fill(s + block.kept(r), s + block.keys, 0.0f);
  }
  roundFloats(m.s.data, p.type, block.rows * block.keys);
  multiply(1, m.s, plain, m.v, plain, 0, m.o);
  store(m.o, o, p.queries, block.head, block.first);
}

/// Computes the gradient of q from the scores, and adds the block's contribution to the gradients of k and v.
void AttentionCall::backward(const Memory &m, const Block &block) const {
  load(o, p.queries, block.head, block.first, m.o);
  load(grad, p.queries, block.head, block.first, m.grad);
  multiply(1, m.grad, plain, m.v, transposed, 0, m.ds);
  for (int64_t r = 0; r < block.rows; ++r) {
    float *s = m.s.row(r), *ds = m.ds.row(r), mean = 0;
    float norm = stats[block.head * p.queries + block.first + r];
    for (int64_t d = 0; d < p.depth; ++d)
      mean += m.grad.row(r)[d] * m.o.row(r)[d];
    for (int64_t c = 0; c < block.kept(r); ++c) {
      s[c] = std::exp(s[c] - norm);
      ds[c] = s[c] * (ds[c] - mean) * scale;
    }
    std::fill(s + block.kept(r), s + block.keys, 0.0f);
    std::fill(ds + block.kept(r), ds + block.keys, 0.0f);
  }
  roundFloats(m.s.data, p.type, block.rows * block.keys);
  roundFloats(m.ds.data, p.type, block.rows * block.keys);
  multiply(1, m.s, transposed, m.grad, plain, 1, m.dv);
  multiply(1, m.ds, transposed, m.q, plain, 1, m.dk);
  multiply(1, m.ds, plain, m.k, plain, 0, m.o);
  store(m.o, dq, p.queries, block.head, block.first);
}
