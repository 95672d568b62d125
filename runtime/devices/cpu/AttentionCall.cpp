#include "runtime/devices/cpu/AttentionCall.h"
#include "runtime/core/Launch.h"
#include "runtime/devices/cpu/AttentionRows.h"
#include "runtime/devices/cpu/Blas.h"
#include "runtime/devices/cpu/Convert.h"
#include "runtime/devices/cpu/OneThread.h"

#include <bit>
#include <climits>
#include <stdexcept>

using namespace divisi::runtime;

/// The number of queries whose scores are in memory at a time.
static constexpr int64_t blockRows = 128;

/// The buffers of a call.
struct AttentionCall::Operands {
  Operands(AttentionKind kind, const DivisiAttention &p, void *const *buffers) {
    auto next = [&] { return static_cast<char *>(*buffers++); };
    q = next(), k = next(), v = next();
    bias = p.has_bias ? reinterpret_cast<const float *>(next()) : nullptr;
    o = next(), stats = reinterpret_cast<float *>(next());
    if (kind == AttentionKind::Gradient)
      grad = next(), dq = next(), dk = next(), dv = next();
  }

  char *q, *k, *v, *o, *grad = nullptr, *dq = nullptr, *dk = nullptr, *dv = nullptr;
  const float *bias;
  float *stats;
};

/// The matrices of one head and of one block of its queries, in the scratch memory of a thread.
struct AttentionCall::Memory {
  Memory(AttentionKind kind, const DivisiAttention &p, char *scratch) {
    const int64_t rows = std::min(blockRows, p.queries);
    const auto width = static_cast<size_t>(widthOfType(p.type));
    auto take = [&](int64_t elements, size_t size) {
      char *data = reinterpret_cast<char *>(reinterpret_cast<uintptr_t>(scratch) + bytes);
      bytes += Scratch::roundUp(static_cast<size_t>(elements) * size);
      return data;
    };
    auto floats = [&](int64_t elements) { return reinterpret_cast<float *>(take(elements, sizeof(float))); };
    s = floats(rows * p.keys), narrow = take(rows * p.keys, width);
    if (kind == AttentionKind::Forward)
      return;
    ds = floats(rows * p.keys), narrowGrad = take(rows * p.keys, width);
    dk = floats(p.keys * p.depth), dv = floats(p.keys * p.depth);
    query = floats(2 * p.depth);
  }

  float *s, *ds = nullptr, *dk = nullptr, *dv = nullptr, *query = nullptr;
  char *narrow, *narrowGrad = nullptr; ///< s and ds in the type of the operands
  size_t bytes = 0;
};

static void check(const DivisiAttention &p) {
  if (p.type != DIVISI_BF16 && p.type != DIVISI_F16)
    throw std::runtime_error("operands must be bf16 or f16");
  if (p.keys > INT_MAX || p.depth > INT_MAX || p.heads > INT_MAX / std::max<int64_t>(p.depth, 1))
    throw std::runtime_error(concat(p.keys, " keys of ", p.heads, " x ", p.depth, " numbers are not supported"));
  auto fits = [](int64_t size, int64_t extent) { return size == 1 || size == extent; };
  if (p.has_bias && !(fits(p.bias_batch, p.batch) && fits(p.bias_heads, p.heads) && fits(p.bias_queries, p.queries)))
    throw std::runtime_error(concat("a bias for ", p.bias_batch, " x ", p.bias_heads, " x ", p.bias_queries,
                                    " queries does not fit ", p.batch, " x ", p.heads, " x ", p.queries));
}

AttentionCall::AttentionCall(AttentionKind kind, const DivisiAttention &params)
    : kind(kind), p(params), scale(static_cast<float>(std::bit_cast<double>(params.scale))) {
  check(p);
  for (int64_t first = 0; first < p.queries; first += blockRows)
    if (p.causal || first == 0 || p.queries - first < blockRows)
      blocks.push_back(blockOf(first));
}

/// A GEMM of two dense matrices in the operands' type.
DivisiGemm AttentionCall::dense(int64_t m, int64_t n, int64_t k) const {
  DivisiGemm g = {};
  g.batch0 = g.batch1 = 1;
  g.m = m, g.n = n, g.k = k;
  g.lda = k, g.ldb = g.ldc = n;
  g.type = g.result_type = p.type;
  return g;
}

AttentionCall::Block AttentionCall::blockOf(int64_t first) const {
  const int64_t rows = std::min(blockRows, p.queries - first), keys = kept(first + rows - 1), row = p.heads * p.depth;
  Block block = {rows, keys, dense(rows, keys, p.depth), dense(rows, p.depth, keys), dense(keys, p.depth, rows)};
  block.scores.lda = block.scores.ldb = row, block.scores.transpose_b = 1, block.scores.result_type = DIVISI_F32;
  block.values.ldb = block.values.ldc = row;
  block.sums.transpose_a = 1, block.sums.lda = keys, block.sums.ldb = row;
  block.sums.result_type = DIVISI_F32, block.sums.accumulate = 1;
  return block;
}

const AttentionCall::Block &AttentionCall::blockAt(int64_t first) const {
  if (p.causal)
    return blocks[static_cast<size_t>(first / blockRows)];
  return p.queries - first < blockRows ? blocks.back() : blocks.front();
}

/// The offset in bytes of a row of an operand [batch, extent, heads, depth].
int64_t AttentionCall::at(int64_t extent, int64_t head, int64_t row) const {
  return ((head / p.heads * extent + row) * p.heads + head % p.heads) * p.depth * widthOfType(p.type);
}

const float *AttentionCall::biasOf(const Operands &operands, int64_t head, int64_t query) const {
  if (!operands.bias)
    return nullptr;
  int64_t i = p.bias_batch == 1 ? 0 : head / p.heads, j = p.bias_heads == 1 ? 0 : head % p.heads;
  return operands.bias + ((i * p.bias_heads + j) * p.bias_queries + (p.bias_queries == 1 ? 0 : query)) * p.keys;
}

namespace {
/// The members of a team that computes attention: their contexts keep the plans of their GEMMs, and memory for them.
struct Members : CacheEntry {
  std::vector<std::unique_ptr<DivisiContext>> contexts;
};

Members &membersOf(DivisiContext *context) {
  constexpr int service = 112; // beside attention
  auto &entry = context->cache[{service, nullptr}];
  if (!entry) {
    auto made = std::make_unique<Members>();
    for (int i = 0; i < context->threads; ++i) {
      made->contexts.push_back(std::make_unique<DivisiContext>(1));
      made->contexts.back()->isMember = made->contexts.back()->blasReady = true;
    }
    entry = std::move(made);
  }
  return static_cast<Members &>(*entry);
}
} // namespace

void AttentionCall::run(DivisiContext *context, void *const *buffers) {
  const Operands operands(kind, p, buffers);
  const int64_t heads = p.batch * p.heads, blocksOfHead = (p.queries + blockRows - 1) / blockRows;
  const int64_t pieces = kind == AttentionKind::Forward ? heads * blocksOfHead : heads;
  if (pieces <= 0)
    return;
  prepareBlas(context);
  auto &members = membersOf(context).contexts;
  const auto threads = static_cast<int64_t>(members.size());
  const size_t bytes = Memory(kind, p, nullptr).bytes;
  char *scratch = context->scratch.reserve(bytes * static_cast<size_t>(std::min(pieces, threads)));
  // One piece for each thread, even if there is less to do: libraries then stay on the calling thread, and sums do not depend on the
  // number of threads.
  forEachPiece(threads, 1, context->threads, [&](int64_t first, int64_t last) {
    OneThread alone(true);
    for (int64_t thread = first; thread < last; ++thread) {
      DivisiContext *own = members[static_cast<size_t>(thread)].get();
      guarded(own, "GEMM", [&] {
        const Memory m(kind, p, scratch + bytes * static_cast<size_t>(thread));
        for (int64_t piece = thread; piece < pieces; piece += threads) // under a causal mask later blocks are larger
          if (kind == AttentionKind::Forward)
            forward(own, operands, m, piece / blocksOfHead, piece % blocksOfHead * blockRows);
          else
            gradientOfHead(own, operands, m, piece);
      });
    }
  });
  for (auto &own : members)
    if (own->failed())
      throw std::runtime_error(own->error.message());
}

void AttentionCall::gradientOfHead(DivisiContext *thread, const Operands &operands, const Memory &m, int64_t head) const {
  for (float *sum : {m.dk, m.dv})
    std::fill_n(sum, p.keys * p.depth, 0.0f);
  for (int64_t first = 0; first < p.queries; first += blockRows)
    backward(thread, operands, m, head, first);
  for (int64_t key = 0; key < p.keys; ++key) {
    convertFromFloat(m.dk + key * p.depth, operands.dk + at(p.keys, head, key), p.type, p.depth);
    convertFromFloat(m.dv + key * p.depth, operands.dv + at(p.keys, head, key), p.type, p.depth);
  }
}

static void multiply(DivisiContext *thread, const DivisiGemm &g, void *a, void *b, void *c) {
  void *const buffers[] = {a, b, c};
  multiplyOnCpu(thread, g, buffers, &g);
}

/// Computes o and stats.
void AttentionCall::forward(DivisiContext *thread, const Operands &operands, const Memory &m, int64_t head, int64_t first) const {
  const Block &block = blockAt(first);
  multiply(thread, block.scores, operands.q + at(p.queries, head, first), operands.k + at(p.keys, head, 0), m.s);
  for (int64_t r = 0; r < block.rows; ++r) {
    float *s = m.s + r * block.keys;
    const int64_t count = kept(first + r);
    operands.stats[head * p.queries + first + r] = softmaxOfRow({s, biasOf(operands, head, first + r), scale, count});
    std::fill(s + count, s + block.keys, 0.0f);
  }
  convertFromFloat(m.s, m.narrow, p.type, block.rows * block.keys);
  multiply(thread, block.values, m.narrow, operands.v + at(p.keys, head, 0), operands.o + at(p.queries, head, first));
}

/// Computes the gradient of q, and adds the block's contribution to the gradients of k and v.
void AttentionCall::backward(DivisiContext *thread, const Operands &operands, const Memory &m, int64_t head, int64_t first) const {
  const Block &block = blockAt(first);
  char *q = operands.q + at(p.queries, head, first), *grad = operands.grad + at(p.queries, head, first);
  char *k = operands.k + at(p.keys, head, 0), *v = operands.v + at(p.keys, head, 0);
  multiply(thread, block.scores, q, k, m.s);
  multiply(thread, block.scores, grad, v, m.ds);
  for (int64_t r = 0; r < block.rows; ++r) {
    const int64_t count = kept(first + r), row = at(p.queries, head, first + r);
    convertToFloat(operands.grad + row, p.type, m.query, p.depth);
    convertToFloat(operands.o + row, p.type, m.query + p.depth, p.depth);
    float *s = m.s + r * block.keys, *ds = m.ds + r * block.keys, mean = 0;
    for (int64_t d = 0; d < p.depth; ++d)
      mean += m.query[d] * m.query[p.depth + d];
    softmaxGradOfRow({s, biasOf(operands, head, first + r), scale, count}, ds, operands.stats[head * p.queries + first + r], mean);
    for (float *x : {s, ds})
      std::fill(x + count, x + block.keys, 0.0f);
  }
  convertFromFloat(m.s, m.narrow, p.type, block.rows * block.keys);
  convertFromFloat(m.ds, m.narrowGrad, p.type, block.rows * block.keys);
  multiply(thread, block.sums, m.narrow, grad, m.dv);
  multiply(thread, block.sums, m.narrowGrad, q, m.dk);
  multiply(thread, block.values, m.narrowGrad, k, operands.dq + at(p.queries, head, first));
}
