#include "compiler/Import/Operators.h"

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;
using Shape = CheckedBuilder::Shape;

Results importBatchNormalization(NodeImporter &n); // BatchNormalization.cpp

//===- Over trailing dimensions -------------------------------------------===//

/// An optional factor or summand with the shape of x from `axis` on.
static Value trailing(N &n, Value value, Value x, int64_t axis, double missing) {
  auto shape = shapeOf(x).drop_front(axis);
  if (!value)
    return n.splatOf(shape, n.elementOf(x), missing);
  value = n.cast(value, n.elementOf(x));
  // Leading dimensions of size 1 are dropped.
  Shape own(shapeOf(value));
  while (own.size() > shape.size() && own[0] == 1)
    own.erase(own.begin());
  return n.broadcastTo(n.reshape(value, own), shape);
}

namespace {
struct Moments {
  Value mean, centered, inverse; // mean and 1 / standard deviation; reduced dimensions have size 1
};
} // namespace

static Moments momentsOf(N &n, Value x, const Shape &dims, double epsilon) {
  auto spread = [&](Value v) { return n.broadcastAlong(v, shapeOf(x), dims); };
  Moments m;
  Value mean = n.reduceMean(x, dims);
  m.centered = n.sub(x, spread(mean));
  m.mean = n.keepDims(mean, shapeOf(x), dims);
  Value variance = n.reduceMean(n.mul(m.centered, m.centered), dims);
  m.inverse = n.keepDims(n.op<RsqrtOp>(n.addConst(variance, epsilon)), shapeOf(x), dims);
  return m;
}

static Results importLayerNormalization(N &n) {
  Value x = n.widened(n.in(0));
  Type element = n.elementOf(n.in(0));
  int64_t axis = n.axisAttr(-1, n.rankOf(x));
  double epsilon = n.number("epsilon", 1e-5f);
  Value scale = trailing(n, n.in(1), x, axis, 1), bias = trailing(n, n.maybe(2), x, axis, 0);
  Results results{n.cast(n.op<LayerNormOp>(x.getType(), x, scale, bias, axis, llvm::APFloat(epsilon)), element)};
  if (n.wants(1) || n.wants(2)) {
    Moments m = momentsOf(n, x, dimRange(axis, n.rankOf(x)), epsilon);
    results.append({m.mean, m.inverse});
  }
  return results;
}

static Results importRmsNormalization(N &n) {
  Value x = n.widened(n.in(0));
  int64_t axis = n.axisAttr(-1, n.rankOf(x));
  Value scale = trailing(n, n.in(1), x, axis, 1);
  Value y = n.op<RmsNormOp>(x.getType(), x, scale, axis, llvm::APFloat(n.number("epsilon", 1e-5f)));
  return {n.cast(y, n.elementOf(n.in(0)))};
}

//===- Over channels and space --------------------------------------------===//

/// Broadcasts a vector with one entry for each channel; channels are dimension 1.
static Value perChannel(N &n, Value vector, Value x) {
  if (n.rankOf(x) < 2 || n.rankOf(vector) != 1 || shapeOf(vector)[0] != shapeOf(x)[1])
    fail("input ", shapeText(shapeOf(x)), " does not have ", shapeText(shapeOf(vector)), " channels");
  return n.along(n.cast(vector, n.elementOf(x)), shapeOf(x), 1);
}

/// x normalized within groups of channels, without scale and bias.
static Value groupNormalized(N &n, Value x, int64_t groups, double epsilon) {
  auto shape = shapeOf(x);
  if (shape.size() < 2 || groups < 1 || shape[1] % groups)
    fail("input ", shapeText(shape), " does not divide into ", groups, " groups of channels");
  int64_t rest = shape[1] / groups * llvm::product_of(shape.drop_front(2));
  Value flat = n.reshape(x, {shape[0], groups, rest});
  Value scale = n.splatOf({rest}, n.elementOf(x), 1), bias = n.splatOf({rest}, n.elementOf(x), 0);
  return n.reshape(n.op<LayerNormOp>(flat.getType(), flat, scale, bias, 2, llvm::APFloat(epsilon)), shape);
}

static Results importInstanceNormalization(N &n) {
  Value x = n.in(0);
  if (n.rankOf(x) < 3)
    fail("its input ", shapeText(shapeOf(x)), " has no spatial dimensions");
  Value y = groupNormalized(n, x, shapeOf(x)[1], n.number("epsilon", 1e-5f));
  Value bias = perChannel(n, n.in(2), x);
  return {n.add(n.mul(y, perChannel(n, n.in(1), x)), bias)};
}

/// Opset 18 has scale and bias for each group, later opsets for each channel.
static Results importGroupNormalization(N &n) {
  Type element = n.elementOf(n.in(0));
  Value x = n.widened(n.in(0));
  int64_t groups = n.integer("num_groups", 0);
  Value y = groupNormalized(n, x, groups, n.number("epsilon", 1e-5f));
  auto channels = [&](Value v) {
    if (n.opset < 21 && n.rankOf(v) == 1 && shapeOf(v)[0] == groups && shapeOf(x)[1] != groups)
      v = n.reshape(n.broadcast(v, {groups, shapeOf(x)[1] / groups}, {0}), {shapeOf(x)[1]});
    return perChannel(n, v, x);
  };
  Value bias = channels(n.in(2));
  return {n.cast(n.add(n.mul(y, channels(n.in(1))), bias), element)};
}

//===- Others -------------------------------------------------------------===//

static Results importLpNormalization(N &n) {
  Value x = n.in(0);
  int64_t axis = n.axisAttr(-1, n.rankOf(x)), p = n.integer("p", 2);
  if (p != 1 && p != 2)
    fail("p is ", p, ", neither 1 nor 2");
  Value norm = p == 1 ? n.reduceSum(n.op<AbsOp>(x), {axis}) : n.length(n.reduceSum(n.mul(x, x), {axis}));
  Value all = n.broadcastAlong(norm, shapeOf(x), {axis});
  Value zero = n.compareTo(Predicate::eq, all, 0);
  Value scaled = n.div(x, n.select(zero, n.splatLike(x, 1), all));
  return {n.select(zero, n.splatLike(x, 0), scaled)};
}

static Results importMeanVarianceNormalization(N &n) {
  Value x = n.in(0);
  Shape dims = n.axes(n.integers("axes").value_or(Shape{0, 2, 3}), n.rankOf(x));
  Value mean = n.broadcastAlong(n.reduceMean(x, dims), shapeOf(x), dims);
  Value centered = n.sub(x, mean);
  Value variance = n.reduceMean(n.mul(centered, centered), dims);
  return {n.div(centered, n.broadcastAlong(n.addConst(n.length(variance), 1e-9), shapeOf(x), dims))};
}

/// x / (bias + alpha / size * sum of squares over nearby channels)^beta.
static Results importLrn(N &n) {
  Value x = n.in(0);
  int64_t size = n.integer("size", 0), rank = n.rankOf(x);
  if (rank < 2 || size < 1 || size > INT32_MAX)
    fail("its size ", size, " does not fit the input ", shapeText(shapeOf(x)));
  Shape window(rank, 1), ones(rank, 1), low(rank, 0);
  window[1] = size, low[1] = (size - 1) / 2;
  Value sum = n.op<SumPoolOp>(x.getType(), n.mul(x, x), window, ones, ones, low);
  Value base = n.addConst(n.scale(sum, n.number("alpha", 1e-4f) / size), n.number("bias", 1));
  return {n.div(x, n.op<PowOp>(base, n.splatLike(base, n.number("beta", 0.75))))};
}

llvm::ArrayRef<Operator> divisi::compiler::normalizationOperators() {
  static constexpr Operator rows[] = {
      {"BatchNormalization", 7, newest, importBatchNormalization},
      {"GroupNormalization", 18, newest, importGroupNormalization},
      {"InstanceNormalization", 6, newest, importInstanceNormalization},
      {"LRN", 1, newest, importLrn},
      {"LayerNormalization", 1, newest, importLayerNormalization},
      {"LpNormalization", 1, newest, importLpNormalization},
      {"MeanVarianceNormalization", 9, newest, importMeanVarianceNormalization},
      {"RMSNormalization", 23, newest, importRmsNormalization},
  };
  return rows;
}
