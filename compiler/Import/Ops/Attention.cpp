#include "compiler/Import/Ops/Attention.h"
#include "compiler/Import/Operators.h"

#include <cmath>

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;
using Shape = CheckedBuilder::Shape;

//===- Heads --------------------------------------------------------------===//

Value divisi::compiler::splitHeads(N &n, Value x, int64_t heads) {
  auto shape = shapeOf(x);
  if (shape.size() != 3 || heads < 1 || shape[2] % heads)
    fail("input ", shapeText(shape), " does not divide into ", heads, " heads");
  return n.transpose(n.reshape(x, {shape[0], shape[1], heads, shape[2] / heads}), {0, 2, 1, 3});
}

/// A tensor of rank 4 has heads already.
static Value splitHeads(N &n, Value x, llvm::StringRef countAttr) {
  return n.rankOf(x) == 4 ? x : splitHeads(n, x, n.integer(countAttr, 0));
}

Value divisi::compiler::mergeHeads(N &n, Value x) {
  auto shape = shapeOf(x);
  return n.reshape(n.transpose(x, {0, 2, 1, 3}), {shape[0], shape[2], shape[1] * shape[3]});
}

Value divisi::compiler::repeatHeads(N &n, Value x, int64_t heads) {
  auto shape = shapeOf(x);
  int64_t times = shape[1] ? heads / shape[1] : 0;
  if (times * shape[1] != heads)
    fail(heads, " query heads do not divide into ", shape[1], " groups");
  Value repeated = n.broadcast(x, {shape[0], shape[1], times, shape[2], shape[3]}, {0, 1, 3, 4});
  return n.reshape(repeated, {shape[0], heads, shape[2], shape[3]});
}

//===- Masks --------------------------------------------------------------===//

namespace {
/// The sum of all masks that are added to the logits, and whether a query may have all its keys masked.
struct Bias {
  Value value;
  bool mayMaskRows = false;
};

struct Lengths {
  int64_t batch, queries, keys, past;
};
} // namespace

static Value biasWhere(N &n, Value allowed, Type element) {
  auto shape = shapeOf(allowed);
  Value hidden = n.splatOf(shape, element, minusInfinity);
  return n.select(allowed, n.splatOf(shape, element, 0), hidden);
}

/// The position of each query minus that of each key, [batch or 1, 1, queries, keys].
static Value distance(N &n, const Lengths &l) {
  Shape shape{1, 1, l.queries, l.keys};
  Value lengths = n.maybe(6);
  bool perBatch = lengths && !n.has(4);
  if (perBatch)
    shape[0] = l.batch;
  Value key = n.iota(shape, 3), result = n.sub(n.iota(shape, 2), key);
  if (!perBatch)
    return l.past ? n.addConst(result, l.past) : result;
  return n.add(result, n.addConst(n.broadcast(n.cast(lengths, n.i64()), shape, {0}), -l.queries));
}

/// The mask input as a bias, padded to all keys.
static Value maskBias(N &n, Value mask, int64_t keys, Type element) {
  if (n.elementOf(mask).isInteger(1))
    mask = biasWhere(n, mask, element);
  mask = n.cast(mask, element);
  Shape shape(shapeOf(mask)), low(shape.size(), 0);
  if (shape.empty() || shape.back() >= keys || shape.back() == 1)
    return mask;
  shape.back() = keys;
  return n.pad(mask, low, shape, minusInfinity);
}

static Bias biasOf(N &n, const Lengths &l, Type element) {
  Bias bias;
  auto add = [&](Value more, bool maskRows) {
    bias.value = bias.value ? n.binary<AddOp>(bias.value, more) : more;
    bias.mayMaskRows |= maskRows;
  };
  if (Value mask = n.maybe(3))
    add(maskBias(n, mask, l.keys, element), true);
  bool external = n.has(6) && !n.has(4);
  if (n.integer("is_causal", 0))
    add(biasWhere(n, n.compareTo(Predicate::ge, distance(n, l), 0), element), external);
  int64_t left = n.integer("left_window_size", -1), right = n.integer("right_window_size", -1);
  if (left >= 0)
    add(biasWhere(n, n.compareTo(Predicate::le, distance(n, l), (double)left), element), true);
  if (right >= 0)
    add(biasWhere(n, n.compareTo(Predicate::ge, distance(n, l), -(double)right), element), true);
  if (Value lengths = n.maybe(6)) {
    Shape shape{l.batch, 1, 1, l.keys};
    Value count = n.broadcast(n.cast(lengths, n.i64()), shape, {0});
    Value valid = n.compare(Predicate::lt, n.iota(shape, 3), count);
    add(biasWhere(n, valid, element), true);
  }
  return bias;
}

//===- Attention ----------------------------------------------------------===//

static Results importAttention(N &n) {
  Value q = splitHeads(n, n.in(0), "q_num_heads"), k = splitHeads(n, n.in(1), "kv_num_heads");
  Value v = splitHeads(n, n.in(2), "kv_num_heads");
  Type element = n.elementOf(q);
  if (!n.isFloat(q) || n.elementOf(k) != element || n.elementOf(v) != element || n.rankOf(q) != 4 || n.rankOf(k) != 4 ||
      n.rankOf(v) != 4)
    fail("queries, keys and values do not fit together");
  Value pastKey = n.maybe(4), pastValue = n.maybe(5);
  if (!pastKey != !pastValue || (pastKey && n.rankOf(pastKey) != 4))
    fail("past keys and values do not fit together");
  Lengths l{shapeOf(q)[0], shapeOf(q)[2], 0, pastKey ? shapeOf(pastKey)[2] : 0};
  Value presentKey = k = pastKey ? n.concat(ValueRange{pastKey, k}, 2) : k;
  Value presentValue = v = pastValue ? n.concat(ValueRange{pastValue, v}, 2) : v;
  l.keys = shapeOf(k)[2];
  k = repeatHeads(n, k, shapeOf(q)[1]);
  v = repeatHeads(n, v, shapeOf(q)[1]);

  double scale = n.number("scale", 1 / std::sqrt((double)shapeOf(q)[3])), cap = n.number("softcap", 0);
  Value product = n.matmul(scale == 1 ? q : n.scale(q, scale), k, false, true);
  Value capped = cap > 0 ? n.scale(n.op<TanhOp>(n.scale(product, 1 / cap)), cap) : product;
  Bias bias = biasOf(n, l, element);
  Value logits = bias.value ? n.add(capped, n.broadcastTo(bias.value, shapeOf(capped))) : capped;
  Type precision = n.elementAttr("softmax_precision", element);
  if (!isa<FloatType>(precision))
    fail("softmax_precision is not a floating-point type");
  Value wide = n.cast(logits, precision);
  Value p = n.cast(n.op<SoftmaxOp>(wide.getType(), wide, 3, bias.mayMaskRows), element);
  Value y = n.matmul(p, v);
  Value exposed[] = {product, capped, logits, p};
  int64_t mode = n.integer("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3)
    fail("qk_matmul_output_mode is ", mode);
  return {n.rankOf(n.in(0)) == 3 ? mergeHeads(n, y) : y, presentKey, presentValue, exposed[mode]};
}

//===- RotaryEmbedding ----------------------------------------------------===//

/// Cosines or sines of each position, [batch, 1, length, half].
static Value rotation(N &n, Value cache, int64_t batch, int64_t length, int64_t half) {
  if (Value positions = n.maybe(3)) {
    if (n.rankOf(cache) != 2)
      fail("its cache ", shapeText(shapeOf(cache)), " is not a matrix");
    cache = n.gather(cache, n.index(positions, shapeOf(cache)[0]), 0);
  }
  Shape expected{batch, length, half};
  if (shapeOf(cache) != ArrayRef<int64_t>(expected))
    fail("its cache ", shapeText(shapeOf(cache)), " is not ", shapeText(expected));
  return n.reshape(cache, {batch, 1, length, half});
}

Value divisi::compiler::rotated(N &n, Value x, Value cosine, Value sine, int64_t size, bool interleaved) {
  auto shape = shapeOf(x);
  int64_t half = size / 2;
  if (size < 2 || size > shape[3] || size % 2)
    fail("a rotation of ", size, " components does not fit heads of size ", shape[3]);
  Shape part{shape[0], shape[1], shape[2], half};
  Value cos = n.broadcastTo(cosine, part), sin = n.broadcastTo(sine, part);
  Shape steps{1, 1, 1, interleaved ? 2 : 1};
  Value a = n.slice(x, {0, 0, 0, 0}, part, steps), b = n.slice(x, {0, 0, 0, interleaved ? 1 : half}, part, steps);
  Value sinOfB = n.mul(sin, b), real = n.sub(n.mul(cos, a), sinOfB);
  Value cosOfB = n.mul(cos, b), imaginary = n.add(n.mul(sin, a), cosOfB);
  Shape whole{shape[0], shape[1], shape[2], size}, unit = part;
  unit.push_back(1);
  Value turned = interleaved
                     ? n.reshape(n.concat(ValueRange{n.reshape(real, unit), n.reshape(imaginary, unit)}, 4), whole)
                     : n.concat(ValueRange{real, imaginary}, 3);
  return size < shape[3] ? n.concat(ValueRange{turned, n.sliceDim(x, 3, size, shape[3] - size)}, 3) : turned;
}

static Results importRotaryEmbedding(N &n) {
  Value x = splitHeads(n, n.in(0), "num_heads");
  auto shape = shapeOf(x);
  if (shape.size() != 4)
    fail("its input ", shapeText(shape), " has neither three dimensions nor four");
  int64_t given = n.integer("rotary_embedding_dim", 0), size = given ? given : shape[3];
  auto cache = [&](int64_t index) { return rotation(n, n.in(index), shape[0], shape[2], size / 2); };
  Value sines = cache(2), cosines = cache(1);
  Value y = rotated(n, x, cosines, sines, size, n.integer("interleaved", 0));
  return {n.rankOf(n.in(0)) == 3 ? mergeHeads(n, y) : y};
}

//===- FlexAttention ------------------------------------------------------===//

/// Attention whose logits and probabilities pass through subgraphs of the node.
static Results importFlexAttention(N &n) {
  Value q = n.in(0), k = n.in(1), v = n.in(2);
  Type element = n.elementOf(q);
  if (!n.isFloat(q) || n.elementOf(k) != element || n.elementOf(v) != element || n.rankOf(q) != 4 || n.rankOf(k) != 4 ||
      n.rankOf(v) != 4)
    fail("queries, keys and values do not fit together");
  Type precision = n.elementAttr("softmax_precision", element.isF64() ? element : Type(n.f32()));
  if (!isa<FloatType>(precision))
    fail("softmax_precision is not a floating-point type");
  auto changed = [&](llvm::StringRef attribute, Value x) {
    if (!n.hasAttr(attribute))
      return x;
    Results results = n.subgraph(attribute, {x});
    Value y = results.size() == 1 ? results[0].tensor : Value();
    if (!y)
      fail("its graph '", attribute, "' does not compute one tensor");
    if (y.getType() != x.getType())
      fail(attribute, " changes ", x.getType(), " to ", y.getType());
    return y;
  };
  k = repeatHeads(n, k, shapeOf(q)[1]), v = repeatHeads(n, v, shapeOf(q)[1]);
  double scale = n.number("scale", 1 / std::sqrt((double)shapeOf(q)[3]));
  Value logits = changed("score_mod", n.cast(n.matmul(n.scale(q, scale), k, false, true), precision));
  Value p = changed("prob_mod", n.op<SoftmaxOp>(logits.getType(), logits, 3));
  return {n.matmul(n.cast(p, element), v)};
}

llvm::ArrayRef<Operator> divisi::compiler::attentionOperators() {
  static constexpr Operator rows[] = {
      {"ai.onnx.preview.FlexAttention", 1, newest, importFlexAttention},
      {"Attention", 23, newest, importAttention},
      {"RotaryEmbedding", 23, newest, importRotaryEmbedding},
  };
  return rows;
}
