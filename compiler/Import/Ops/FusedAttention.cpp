// Attention as onnxruntime's optimizers write it (domain com.microsoft), see Fused.cpp.
#include "compiler/Import/Operators.h"
#include "compiler/Import/Ops/Attention.h"
#include "compiler/Import/Ops/Contraction.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;
using Shape = CheckedBuilder::Shape;

namespace {
/// Queries, keys and values, [batch, heads, length, size], and what is added to the logits: a value of rank 4 that
/// broadcasts to [batch, heads, queries, keys], or null.
struct Heads {
  Value q, k, v, bias;
};
} // namespace

static void addBias(N &n, Heads &h, Value more) { h.bias = h.bias ? n.binary<AddOp>(h.bias, more) : more; }

/// 0 where it is allowed to attend, else `otherwise`.
static void mask(N &n, Heads &h, Value allowed, double otherwise) {
  auto shape = shapeOf(allowed);
  Type element = n.elementOf(h.q);
  Value hidden = n.splatOf(shape, element, otherwise);
  addBias(n, h, n.select(allowed, n.splatOf(shape, element, 0), hidden));
}

/// A mask of whole numbers: [batch] has lengths, [2 * batch] ends and then starts, [batch, keys] and
/// [batch, queries, keys] zeros where it is not allowed to attend.
static void addMask(N &n, Heads &h, Value given) {
  int64_t batch = shapeOf(h.q)[0], keys = shapeOf(h.k)[2];
  double otherwise = n.number("mask_filter_value", -10000);
  auto shape = shapeOf(given);
  Value numbers = n.cast(given, n.i64());
  if (shape.size() == 1 && (shape[0] == batch || shape[0] == 2 * batch)) {
    Shape wide{batch, 1, 1, keys};
    auto entry = [&](int64_t from) { return n.broadcast(n.sliceDim(numbers, 0, from, batch), wide, {0}); };
    Value position = n.iota(wide, 3), allowed = n.compare(Predicate::lt, position, entry(0));
    if (shape[0] == 2 * batch)
      allowed = n.both(allowed, n.compare(Predicate::ge, position, entry(batch)));
    return mask(n, h, allowed, otherwise);
  }
  Shape wide(shape);
  if (wide.size() == 2)
    wide.insert(wide.begin() + 1, 2, 1);
  else if (wide.size() == 3)
    wide.insert(wide.begin() + 1, 1);
  if (shape.size() < 2 || shape.size() > 3 || wide[0] != batch || wide[3] != keys ||
      (shape.size() == 3 && wide[2] != shapeOf(h.q)[2]))
    fail("its mask ", shapeText(shape), " does not fit ", batch, " sequences of ", keys, " keys");
  mask(n, h, n.compareTo(Predicate::gt, n.reshape(numbers, wide), 0), otherwise);
}

/// Puts the heads of earlier positions in front of keys and values.
static void addPast(N &n, Heads &h, Value keys, Value values) {
  if (!keys != !values || (keys && (n.rankOf(keys) != 4 || n.rankOf(values) != 4)))
    fail("its past keys and values do not fit together");
  if (!keys)
    return;
  h.k = n.concat(ValueRange{keys, h.k}, 2);
  h.v = n.concat(ValueRange{values, h.v}, 2);
}

/// softmax(scale * q k' + bias) v as [batch, queries, heads * size].
static Value attend(N &n, Heads &h) {
  auto q = shapeOf(h.q), k = shapeOf(h.k), v = shapeOf(h.v);
  Type element = n.elementOf(h.q);
  if (!n.isFloat(h.q) || n.elementOf(h.k) != element || n.elementOf(h.v) != element || k[1] != q[1] || v[1] != q[1] ||
      k[3] != q[3] || k[2] != v[2])
    fail("queries ", shapeText(q), ", keys ", shapeText(k), " and values ", shapeText(v), " do not fit together");
  if (n.integer("unidirectional", 0)) {
    Shape square{1, 1, q[2], k[2]};
    Value key = n.iota(square, 3);
    Value distance = n.sub(n.addConst(n.iota(square, 2), (double)(k[2] - q[2])), key);
    mask(n, h, n.compareTo(Predicate::ge, distance, 0), minusInfinity);
  }
  double scale = n.number("scale", 0);
  scale = scale == 0 ? 1 / std::sqrt((double)q[3]) : scale;
  Value logits = n.matmul(n.scale(h.q, scale), h.k, false, true);
  if (h.bias)
    logits = n.add(logits, n.broadcastTo(h.bias, shapeOf(logits)));
  return mergeHeads(n, n.matmul(n.op<SoftmaxOp>(logits.getType(), logits, 3), h.v));
}

static int64_t headsOf(N &n) {
  int64_t heads = n.integer("num_heads", 0);
  if (heads < 1)
    fail("num_heads is ", heads);
  return heads;
}

/// Self-attention of x, [batch, length, features], whose weights give queries, keys and values side by side.
static Results importContribAttention(N &n) {
  if (n.integer("do_rotary", 0) || n.has(6))
    fail("do_rotary and past_sequence_length are not supported");
  Value x = n.in(0), weights = n.in(1);
  if (n.rankOf(x) != 3 || n.rankOf(weights) != 2 || shapeOf(weights)[0] != shapeOf(x)[2])
    fail("input ", shapeText(shapeOf(x)), " and weights ", shapeText(shapeOf(weights)), " do not fit together");
  int64_t third = shapeOf(weights)[1] / 3, heads = headsOf(n);
  Shape sizes = n.integers("qkv_hidden_sizes").value_or(Shape{third, third, third});
  if (sizes.size() != 3 || llvm::any_of(sizes, [](int64_t s) { return s < 1 || s > INT32_MAX; }) ||
      sizes[0] + sizes[1] + sizes[2] != shapeOf(weights)[1])
    fail("its weights ", shapeText(shapeOf(weights)), " do not divide into queries, keys and values");
  Value all = generalMatmul(n, x, weights);
  if (Value bias = n.maybe(2))
    all = n.add(all, n.broadcastTo(bias, shapeOf(all)));
  auto part = [&](int64_t from, int64_t size) { return splitHeads(n, n.sliceDim(all, 2, from, size), heads); };
  Heads h{part(0, sizes[0]), part(sizes[0], sizes[1]), part(sizes[0] + sizes[1], sizes[2]), {}};
  if (Value past = n.maybe(4)) {
    if (n.rankOf(past) != 5 || shapeOf(past)[0] != 2)
      fail("its past ", shapeText(shapeOf(past)), " is not that of keys and values");
    auto half = [&](int64_t i) { return n.reshape(n.sliceDim(past, 0, i, 1), shapeOf(past).drop_front()); };
    Value values = half(1);
    addPast(n, h, half(0), values);
  }
  if (n.has(3))
    addMask(n, h, n.in(3));
  if (n.has(5))
    addBias(n, h, n.in(5));
  Results results{attend(n, h)};
  if (n.wants(1)) {
    auto entry = [&](Value v) {
      Shape one(shapeOf(v));
      one.insert(one.begin(), 1);
      return n.reshape(v, one);
    };
    results.push_back(n.concat(ValueRange{entry(h.k), entry(h.v)}, 0));
  }
  return results;
}

/// The parts of [batch, length, heads, parts, size] as heads.
static Value packed(N &n, Value x, int64_t part, int64_t parts) {
  auto shape = shapeOf(x);
  if (shape.size() != 5 || shape[3] != parts)
    fail("its packed input ", shapeText(shape), " does not have ", parts, " parts");
  Value own = n.reshape(n.sliceDim(x, 3, part, 1), {shape[0], shape[1], shape[2], shape[4]});
  return n.transpose(own, {0, 2, 1, 3});
}

static Results importMultiHeadAttention(N &n) {
  if (n.has(8) || n.has(9))
    fail("past_sequence_length and cache_indirection are not supported");
  int64_t heads = headsOf(n);
  Value q = n.in(0), k = n.maybe(1), v = n.maybe(2);
  if (!k && n.rankOf(q) != 5)
    fail("it has no keys");
  Heads h;
  if (!k) {
    h = {packed(n, q, 0, 3), packed(n, q, 1, 3), packed(n, q, 2, 3), {}};
  } else {
    bool areHeads = n.rankOf(k) == 4;
    Value bias = n.maybe(3);
    int64_t first = 0;
    auto withBias = [&](Value x) {
      if (!bias || n.rankOf(x) != 3)
        return x;
      int64_t from = first, size = shapeOf(x)[2];
      first += size;
      if (n.rankOf(bias) != 1 || shapeOf(bias)[0] < first)
        fail("its bias ", shapeText(shapeOf(bias)), " is too short");
      return n.add(x, n.broadcastTo(n.sliceDim(bias, 0, from, size), shapeOf(x)));
    };
    h.q = splitHeads(n, withBias(q), heads);
    if (n.rankOf(k) == 5) {
      h.k = packed(n, k, 0, 2), h.v = packed(n, k, 1, 2);
    } else if (!v) {
      fail("it has no values");
    } else {
      h.k = areHeads ? k : splitHeads(n, withBias(k), heads);
      h.v = areHeads ? v : splitHeads(n, withBias(v), heads);
    }
  }
  if (n.rankOf(h.k) != 4 || n.rankOf(h.v) != 4)
    fail("queries, keys and values do not fit together");
  addPast(n, h, n.maybe(6), n.maybe(7));
  if (n.has(4))
    addMask(n, h, n.in(4));
  if (n.has(5))
    addBias(n, h, n.in(5));
  return {attend(n, h), h.k, h.v};
}

/// Positions: one number, from which all sequences count, or one for each token.
static Results importContribRotaryEmbedding(N &n) {
  if (n.integer("is_packed_batching", 0) || n.number("scale", 1) != 1)
    fail("packed batches and scales are not supported");
  Value x = n.in(0), positions = n.cast(n.in(1), n.i64()), cosine = n.in(2), sine = n.in(3);
  if (n.rankOf(cosine) != 2 || shapeOf(cosine) != shapeOf(sine))
    fail("its caches ", shapeText(shapeOf(cosine)), " and ", shapeText(shapeOf(sine)), " are not two matrices of one shape");
  int64_t half = shapeOf(cosine)[1], given = n.integer("num_heads", 0);
  bool areHeads = n.rankOf(x) == 4;
  if (!areHeads && (n.rankOf(x) != 3 || half < 1))
    fail("its input ", shapeText(shapeOf(x)), " has neither three dimensions nor four");
  if (!areHeads)
    x = splitHeads(n, x, given ? given : shapeOf(x)[2] / (2 * half));
  int64_t batch = shapeOf(x)[0], length = shapeOf(x)[2];
  if (tensorType(positions).getNumElements() == 1 && batch * length != 1) {
    Value offsets = n.iota({1, length}, 1);
    positions = n.add(n.broadcast(n.reshape(positions, {}), {1, length}, {}), offsets);
  } else if (shapeOf(positions) != ArrayRef<int64_t>({batch, length}))
    fail("its positions ", shapeText(shapeOf(positions)), " do not fit ", batch, " sequences of ", length);
  auto look = [&](Value cache) {
    Value rows = n.gather(cache, n.index(positions, shapeOf(cache)[0]), 0);
    return n.reshape(rows, {shapeOf(positions)[0], 1, length, half});
  };
  Value sines = look(sine), cosines = look(cosine);
  Value y = rotated(n, x, cosines, sines, 2 * half, n.integer("interleaved", 0));
  return {areHeads ? y : mergeHeads(n, y)};
}

llvm::ArrayRef<Operator> divisi::compiler::fusedAttentionOperators() {
  static constexpr Operator rows[] = {
      {"com.microsoft.Attention", 1, newest, importContribAttention},
      {"com.microsoft.MultiHeadAttention", 1, newest, importMultiHeadAttention},
      {"com.microsoft.RotaryEmbedding", 1, newest, importContribRotaryEmbedding},
  };
  return rows;
}
