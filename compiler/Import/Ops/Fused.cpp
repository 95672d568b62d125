// Operators of onnxruntime (domain com.microsoft, and SimplifiedLayerNormalization in the main one), by which its graph
// optimizer and exporters replace several of ONNX's: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
#include "compiler/Import/Operators.h"
#include "compiler/Import/Ops/Contraction.h"
#include "compiler/Import/Ops/Convolution.h"

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;
using Shape = CheckedBuilder::Shape;

//===- Products -----------------------------------------------------------===//

/// Moves the first dimension behind the other batch dimensions.
static Value batchFirst(N &n, Value x) {
  Shape order = dimRange(1, n.rankOf(x) - 1);
  order.append({0, n.rankOf(x) - 1});
  return n.transpose(x, order);
}

/// alpha * A' B', where A' and B' have their last two dimensions, or first their batch dimensions, transposed.
static Results importFusedMatMul(N &n) {
  auto operand = [&](int64_t index, llvm::StringRef last, llvm::StringRef batch) {
    Value x = n.in(index);
    int64_t rank = n.rankOf(x);
    if (n.integer(batch, 0) && rank > 2)
      x = batchFirst(n, x);
    if (!n.integer(last, 0) || rank < 2)
      return x;
    Shape order = dimRange(0, rank);
    std::swap(order[rank - 2], order[rank - 1]);
    return n.transpose(x, order);
  };
  Value a = operand(0, "transA", "transBatchA"), b = operand(1, "transB", "transBatchB");
  if (n.elementOf(a) != n.elementOf(b))
    fail("element types differ: ", n.elementOf(a), " and ", n.elementOf(b));
  double alpha = n.number("alpha", 1);
  Value y = generalMatmul(n, a, b);
  return {alpha == 1 ? y : n.scale(y, alpha)};
}

/// The activation of a fused operator: its name and its numbers alpha and beta, or the bounds of Clip.
static Value activated(N &n, Value x, double alpha, double beta) {
  std::string name = n.text("activation", "");
  if (name.empty())
    return x;
  if (name == "Relu")
    return n.op<ReluOp>(x);
  if (name == "Tanh")
    return n.op<TanhOp>(x);
  if (name == "Sigmoid")
    return n.op<SigmoidOp>(x);
  if (name == "LeakyRelu") {
    Value scaled = n.scale(x, alpha);
    return n.select(n.compareTo(Predicate::gt, x, 0), x, scaled);
  }
  if (name == "Clip")
    return n.clamp(x, alpha, beta);
  if (name == "HardSigmoid") {
    Value line = n.op<ReluOp>(n.addConst(n.scale(x, alpha), beta));
    Value one = n.splatLike(x, 1);
    return n.select(n.compareTo(Predicate::ge, line, 1), one, line);
  }
  fail("activation '", name, "' is not known");
}

/// A convolution, a summand (input 3) and an activation.
static Results importFusedConv(N &n) {
  Value y = convolution(n, n.in(0), n.in(1));
  if (Value bias = n.maybe(2))
    y = addPerChannel(n, y, bias);
  if (Value more = n.maybe(3))
    y = n.add(y, n.broadcastTo(more, shapeOf(y)));
  auto numbers = n.floats("activation_params").value_or(SmallVector<double>());
  numbers.resize(2, 0);
  return {activated(n, y, numbers[0], numbers[1])};
}
static Results importFusedGemm(N &n) {
  double missing = n.text("activation", "") == "LeakyRelu" ? 0.01f : 0.2f;
  return {activated(n, gemm(n), n.number("activation_alpha", missing), n.number("activation_beta", 0.5))};
}

//===- Activations --------------------------------------------------------===//

static Results importContribGelu(N &n) { return {n.op<GeluOp>(n.in(0), false)}; }
static Value withBias(N &n, Value x, Value bias) { return bias ? n.binary<AddOp>(x, bias) : x; }
static Results importBiasGelu(N &n) { return {n.op<GeluOp>(withBias(n, n.in(0), n.in(1)), false)}; }
static Results importFastGelu(N &n) { return {n.op<GeluOp>(withBias(n, n.in(0), n.maybe(1)), true)}; }
static Results importQuickGelu(N &n) {
  Value x = n.in(0);
  return {n.mul(x, n.op<SigmoidOp>(n.scale(x, n.number("alpha", 1.702f))))};
}

/// Softmax of a sum over all dimensions from an axis on.
static Results importBiasSoftmax(N &n) {
  Value x = n.binary<AddOp>(n.in(0), n.in(1));
  auto shape = shapeOf(x);
  int64_t axis = n.axisAttr(1, n.rankOf(x));
  Value flat = n.reshape(x, {llvm::product_of(shape.take_front(axis)), llvm::product_of(shape.drop_front(axis))});
  return {n.reshape(n.op<SoftmaxOp>(flat.getType(), flat, 1), shape)};
}

//===- Normalizations -----------------------------------------------------===//

/// The mean over the last dimension, which has size 1 then.
static Value meanOfRows(N &n, Value x) {
  Shape last{n.rankOf(x) - 1};
  return n.keepDims(n.reduceMean(x, last), shapeOf(x), last);
}

/// LayerNormalization over the last dimension, or with `simple` only a division by the root of the mean square. Its
/// results: the normalized tensor, means and inverse standard deviations.
static Results normalized(N &n, Value x, Value scale, Value bias, bool simple, double epsilon) {
  Type element = n.elementOf(x);
  x = n.widened(x);
  int64_t last = n.rankOf(x) - 1;
  if (last < 0 || n.rankOf(scale) != 1 || shapeOf(scale)[0] != shapeOf(x)[last])
    fail("its scale ", shapeText(shapeOf(scale)), " does not fit ", shapeText(shapeOf(x)));
  scale = n.cast(scale, n.elementOf(x));
  bias = bias ? n.cast(bias, n.elementOf(x)) : n.splatLike(scale, 0);
  llvm::APFloat small(epsilon);
  Value y = simple ? n.op<RmsNormOp>(x.getType(), x, scale, last, small)
                   : n.op<LayerNormOp>(x.getType(), x, scale, bias, last, small);
  Value mean = meanOfRows(n, x);
  Value centered = simple ? x : n.sub(x, n.broadcastTo(mean, shapeOf(x)));
  Value inverse = n.op<RsqrtOp>(n.addConst(meanOfRows(n, n.mul(centered, centered)), epsilon));
  return {n.cast(y, element), mean, inverse};
}

/// Root mean square normalization over the dimensions from an axis on: its result and the inverse.
static Results importSimplifiedLayerNormalization(N &n) {
  Value x = n.in(0);
  if (n.axisAttr(-1, n.rankOf(x)) != n.rankOf(x) - 1)
    fail("it normalizes over more than the last dimension");
  Results results = normalized(n, x, n.in(1), {}, /*simple=*/true, n.number("epsilon", 1e-5f));
  return {results[0], results[2]};
}

/// Normalizes a sum: of x, a residual (input 1) and a bias. The sum is the last result.
static Results skipNormalized(N &n, bool simple, Value scale, Value shift, Value bias) {
  Value x = n.in(0);
  Value sum = n.add(x, n.broadcastTo(n.in(1), shapeOf(x)));
  if (bias)
    sum = n.add(sum, n.broadcastTo(bias, shapeOf(x)));
  Results results = normalized(n, sum, scale, shift, simple, n.number("epsilon", 1e-12f));
  results.push_back(sum);
  return results;
}
static Results importSkipLayerNormalization(N &n) {
  return skipNormalized(n, /*simple=*/false, n.in(2), n.maybe(3), n.maybe(4));
}
static Results importSkipSimplifiedLayerNormalization(N &n) {
  return skipNormalized(n, /*simple=*/true, n.in(2), {}, n.maybe(3));
}

/// The normalized sum of word, position and segment embeddings; the number of tokens of each sequence; the sum.
static Results importEmbedLayerNormalization(N &n) {
  Value words = n.in(0), table = n.in(2), positions = n.in(3);
  auto ids = shapeOf(words);
  if (ids.size() != 2 || n.rankOf(table) != 2 || n.rankOf(positions) != 2)
    fail("its token numbers or tables are no matrices");
  auto look = [&](Value from, Value at) { return n.gather(from, n.index(at, shapeOf(from)[0]), 0); };
  Value sum = look(table, words);
  auto shape = shapeOf(sum);
  if (Value at = n.maybe(8))
    sum = n.add(sum, n.broadcastTo(look(positions, at), shape));
  else if (ids[1] > shapeOf(positions)[0])
    fail("sequences of ", ids[1], " tokens are longer than its ", shapeOf(positions)[0], " positions");
  else
    sum = n.add(sum, n.broadcastTo(n.sliceDim(positions, 0, 0, ids[1]), shape));
  if (Value segments = n.maybe(1))
    sum = n.add(sum, look(n.in(4), segments));
  Results results = normalized(n, sum, n.in(5), n.in(6), /*simple=*/false, n.number("epsilon", 1e-12f));
  Type i32 = n.getBuilder().getI32Type();
  Value lengths = n.splatOf({ids[0]}, i32, 0);
  if (Value mask = n.maybe(7))
    lengths = n.cast(n.reduceSum(n.cast(mask, n.i64()), {1}), i32);
  return {results[0], lengths, sum};
}

llvm::ArrayRef<Operator> divisi::compiler::fusedOperators() {
  static constexpr Operator rows[] = {
      {"SimplifiedLayerNormalization", 1, newest, importSimplifiedLayerNormalization},
      {"com.microsoft.BiasGelu", 1, newest, importBiasGelu},
      {"com.microsoft.BiasSoftmax", 1, newest, importBiasSoftmax},
      {"com.microsoft.EmbedLayerNormalization", 1, newest, importEmbedLayerNormalization},
      {"com.microsoft.FastGelu", 1, newest, importFastGelu},
      {"com.microsoft.FusedConv", 1, newest, importFusedConv},
      {"com.microsoft.FusedGemm", 1, newest, importFusedGemm},
      {"com.microsoft.FusedMatMul", 1, newest, importFusedMatMul},
      {"com.microsoft.Gelu", 1, newest, importContribGelu},
      {"com.microsoft.QuickGelu", 1, newest, importQuickGelu},
      {"com.microsoft.SkipLayerNormalization", 1, newest, importSkipLayerNormalization},
      {"com.microsoft.SkipSimplifiedLayerNormalization", 1, newest, importSkipSimplifiedLayerNormalization},
  };
  return rows;
}
