#include "dialects/Graph/GraphBuilder.h"

#include <limits>

using namespace mlir;
using namespace divisi;
using namespace divisi::graph;
using Values = SmallVector<Value>;
using B = GraphBuilder;

#define GET_OP_CLASSES
#include "dialects/Graph/Attention.cpp.inc"

void GraphDialect::addAttention() {
  addOperations<
#define GET_OP_LIST
#include "dialects/Graph/Attention.cpp.inc"
      >();
}

/// Verifies q, k, v, bias, result and stats, which both operations have.
template <typename OpT> static LogicalResult verifyAttention(OpT op) {
  auto q = tensorType(op.getQ()), k = tensorType(op.getK()), stats = tensorType(op.getStats());
  if (q.getRank() != 4 || k.getRank() != 4 || !isa<FloatType>(q.getElementType()))
    return op.emitOpError("constraint 1: expected q, k and v with four dimensions of floats");
  int64_t batch = q.getDimSize(0), queries = q.getDimSize(1), heads = q.getDimSize(2), keys = k.getDimSize(1);
  if (k.getDimSize(0) != batch || k.getDimSize(2) != heads || k.getDimSize(3) != q.getDimSize(3))
    return op.emitOpError("constraint 2: keys ") << k << " do not fit queries " << q;
  if (!sameShapes({op.getV().getType(), op.getResult().getType()}, {k, q}) || k.getElementType() != q.getElementType())
    return op.emitOpError("constraint 3: expected v like k, and a result like q");
  bool wide = q.getElementType().isF64();
  auto isSum = [&](RankedTensorType of) { return wide ? of.getElementType().isF64() : of.getElementType().isF32(); };
  if (stats.getShape() != ArrayRef<int64_t>{batch, heads, queries} || !isSum(stats))
    return op.emitOpError("constraint 4: expected stats in ")
           << (wide ? "f64" : "f32") << " for each of batch, heads and queries, got " << stats;
  if (!op.getBias())
    return success();
  auto bias = tensorType(op.getBias());
  bool fits = bias.getRank() == 4 && isSum(bias) && bias.getDimSize(3) == keys;
  const int64_t sizes[] = {batch, heads, queries};
  for (auto [d, size] : llvm::enumerate(sizes))
    fits = fits && (bias.getDimSize(d) == 1 || bias.getDimSize(d) == size);
  return fits ? success() : op.emitOpError("constraint 5: bias ") << bias << " does not fit the scores";
}

LogicalResult AttentionOp::verify() { return verifyAttention(*this); }
LogicalResult AttentionGradOp::verify() {
  if (failed(verifyAttention(*this)))
    return failure();
  bool same = sameShapes({getGradient().getType(), getDq().getType(), getDk().getType(), getDv().getType()},
                         {getQ().getType(), getQ().getType(), getK().getType(), getV().getType()});
  return same ? success() : emitOpError("constraint 6: expected gradients like their values");
}

/// The scores' gradient of all heads in 16 bits, in tiles (so that sums have a fixed order), and one sum for each
/// query. cuDNN's plans request this much (test/gpu/cudnn_plans.py).
Workspace AttentionGradOp::getLibraryWorkspace() {
  constexpr double some = 1024;
  auto q = shapeOf(getQ());
  const double keys = llvm::alignTo(shapeOf(getK())[1], 128), queries = llvm::alignTo(q[1], 64);
  const double ofHead = 2 * queries * keys + 4 * (double)q[1];
  return {.fixed = some, .perElement = ofHead / ((double)q[1] * q[3])};
}

Values AttentionOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  Values none(getNumOperands());
  if (!gradients[0])
    return none;
  Value g = b.cast(gradients[0], tensorType(getResult()).getElementType());
  auto grad = AttentionGradOp::create(b.getBuilder(), b.getLoc(),
                                      TypeRange{getQ().getType(), getK().getType(), getV().getType()}, getQ(), getK(),
                                      getV(), getBias(), getResult(), getStats(), g, getScaleAttr(), getCausalAttr());
  llvm::copy(grad.getResults(), none.begin());
  return none;
}
Values AttentionGradOp::buildGradient(B &, ArrayRef<Value>) { return Values(getNumOperands()); }

namespace {
/// Attention as simpler operations, with operands [batch, heads, sequence, depth].
struct Plainly {
  B &b;

  /// Transposes from and to [batch, sequence, heads, depth].
  Value turned(Value x) { return b.transpose(x, {0, 2, 1, 3}); }

  template <typename OpT> Value scores(OpT op) {
    Value keys = turned(op.getK()), queries = turned(op.getQ());
    Value s = b.scale(b.matmul(queries, keys, false, true), op.getScale().convertToDouble());
    if (op.getBias())
      s = b.add(s, b.broadcastTo(op.getBias(), shapeOf(s)));
    if (!op.getCausal())
      return s;
    Value query = b.iota(shapeOf(s), 2), key = b.iota(shapeOf(s), 3);
    Value kept = b.compare(Predicate::le, key, query);
    return b.select(kept, s, b.splatLike(s, -std::numeric_limits<double>::infinity()));
  }
  Value along(Value perQuery, Value like) { return b.broadcastAlong(perQuery, shapeOf(like), {3}); }
};

bool hasLibrary(Value q) { return tensorType(q).getElementTypeBitWidth() == 16; }
} // namespace

Values AttentionOp::decompose(B &b) {
  if (hasLibrary(getQ()))
    return {};
  Plainly p{b};
  Value s = p.scores(*this), most = b.reduceMax(s, {3});
  Value sum = b.reduceSum(b.op<ExpOp>(b.sub(s, p.along(most, s))), {3});
  Value stats = b.add(most, b.op<LogOp>(sum));
  Value weights = b.op<ExpOp>(b.sub(s, p.along(stats, s)));
  return {p.turned(b.matmul(weights, p.turned(getV()))), stats};
}

Values AttentionGradOp::decompose(B &b) {
  if (hasLibrary(getQ()))
    return {};
  Plainly p{b};
  Value s = p.scores(*this), weights = b.op<ExpOp>(b.sub(s, p.along(getStats(), s)));
  Value g = p.turned(getGradient()), q = p.turned(getQ()), k = p.turned(getK()), v = p.turned(getV());
  Value mean = b.reduceSum(b.mul(g, p.turned(getResult())), {3}); // of the gradient of the probabilities
  Value dWeights = b.matmul(g, v, false, true);
  Value dScores = b.scale(b.mul(weights, b.sub(dWeights, p.along(mean, dWeights))), getScale().convertToDouble());
  return {p.turned(b.matmul(dScores, k)), p.turned(b.matmul(dScores, q, true)), p.turned(b.matmul(weights, g, true))};
}

/// Batch, heads and queries may be sharded; each shard needs all keys.
template <typename OpT> static dist::ShardingRule attentionRule(OpT op, StringRef rest) {
  Value bias = op.getBias();
  std::string text = "b s h d,b t h d,b t h d";
  if (bias) {
    auto shape = shapeOf(bias), q = shapeOf(op.getQ());
    text += shape[0] == q[0] ? ",b" : ",.";
    text += shape[1] == q[2] ? " h" : " .";
    text += shape[2] == q[1] ? " s t" : " . t";
  }
  dist::ShardingRule rule(text + rest.str(), op);
  if (op.getCausal())
    rule.skewed("s");
  return rule.whole("t").whole("d");
}

/// The library's causal mask counts queries from 0: a shard of the queries has a mask of its own as part of its bias.
template <typename OpT> static void maskQueries(OpT op, dist::LocalContext &context) {
  dist::AxesRef axes = context.factorAxes()[context.factorOf("s")];
  if (axes.empty() || !op.getCausal())
    return;
  B b(context.builder(), op.getLoc());
  Type type = tensorType(op.getStats()).getElementType();
  int64_t queries = shapeOf(op.getQ())[1], keys = shapeOf(op.getK())[1];
  SmallVector<int64_t> shape = {1, 1, queries, keys};
  Value first = b.broadcast(b.scale(context.pieceIndex(axes), queries), shape, {});
  Value query = b.add(b.iota(shape, 2), first), key = b.iota(shape, 3);
  Value seen = b.compare(Predicate::le, key, query);
  auto scores = [&](double value) { return b.splat(RankedTensorType::get(shape, type), value); };
  Value hidden = scores(-std::numeric_limits<double>::infinity());
  Value mask = b.select(seen, scores(0), hidden);
  if (Value bias = op.getBias()) {
    for (int i : {0, 1})
      shape[i] = shapeOf(bias)[i];
    mask = b.broadcastTo(mask, shape);
    mask = b.add(b.broadcastTo(bias, shape), mask);
  }
  op.getBiasMutable().assign(mask);
  op.setCausal(false);
}

dist::ShardingRule AttentionOp::getShardingRule() { return attentionRule(*this, "->b s h d,b h s"); }
dist::ShardingRule AttentionGradOp::getShardingRule() {
  return attentionRule(*this, ",b s h d,b h s,b s h d->b s h d,b t h d,b t h d").contract("s", dist::Reduction::sum);
}
Value AttentionOp::makeLocal(dist::LocalContext &context) {
  maskQueries(*this, context);
  return {};
}
Value AttentionGradOp::makeLocal(dist::LocalContext &context) {
  maskQueries(*this, context);
  return {};
}
