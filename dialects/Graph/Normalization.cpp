#include "dialects/Graph/GraphBuilder.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::graph;
using Values = SmallVector<Value>;
using B = GraphBuilder;

#define GET_OP_CLASSES
#include "dialects/Graph/Normalization.cpp.inc"

void GraphDialect::addNormalization() {
  addOperations<
#define GET_OP_LIST
#include "dialects/Graph/Normalization.cpp.inc"
      >();
}

static SmallVector<int64_t> dimsFrom(Value x, int64_t first) {
  return llvm::to_vector(llvm::seq<int64_t>(first, shapeOf(x).size()));
}
static SmallVector<int64_t> dimsBut(Value x, int64_t dim) {
  SmallVector<int64_t> dims = dimsFrom(x, 0);
  dims.erase(dims.begin() + dim);
  return dims;
}
/// Broadcasts a reduced value along the reduced dimensions of x.
static Value spread(B &b, Value reduced, Value x, ArrayRef<int64_t> dims) {
  return b.broadcastAlong(reduced, shapeOf(x), dims);
}
static Value meanAlong(B &b, Value x, ArrayRef<int64_t> dims) { return spread(b, b.reduceMean(x, dims), x, dims); }
static Value sumAlong(B &b, Value x, ArrayRef<int64_t> dims) { return spread(b, b.reduceSum(x, dims), x, dims); }

/// The rule of an operation that reduces `dims` of its first operand; operands of lower rank are aligned at the minor
/// end.
static dist::ShardingRule normRule(Operation *op, ArrayRef<int64_t> dims, ArrayRef<int64_t> parameterDims) {
  dist::ShardingRule rule;
  auto x = shapeOf(op->getOperand(0));
  dist::ShardingRule::Dims all, parameter;
  for (auto [d, size] : llvm::enumerate(x)) {
    all.push_back({rule.addFactor("d" + std::to_string(d), size)});
    if (llvm::is_contained(dims, (int64_t)d))
      rule.factors.back().whole = true;
  }
  for (int64_t d : parameterDims)
    parameter.push_back(all[d]);
  for (Value operand : op->getOperands())
    rule.operands.push_back(shapeOf(operand) == x ? all : parameter);
  for (Value result : op->getResults())
    rule.results.push_back(shapeOf(result) == x ? all : parameter);
  return rule;
}

template <typename OpT> static LogicalResult verifyDim(OpT op) {
  auto type = tensorType(op.getX());
  if ((int64_t)op.getDim() < 0 || (int64_t)op.getDim() >= type.getRank())
    return op.emitOpError("constraint 1: dim ") << (int64_t)op.getDim() << " is out of range for " << type;
  if (!isa<FloatType>(type.getElementType()))
    return op.emitOpError("constraint 2: expected floating-point elements, got ") << type;
  return success();
}
/// Verifies scale, bias and statistics: they have x's element type and this shape.
template <typename OpT> static LogicalResult verifyParameters(OpT op, ArrayRef<int64_t> shape, ValueRange parameters) {
  for (Value parameter : parameters)
    if (shapeOf(parameter) != shape || tensorType(parameter).getElementType() != tensorType(op.getX()).getElementType())
      return op.emitOpError("constraint 3: expected parameters of type ")
             << RankedTensorType::get(shape, tensorType(op.getX()).getElementType()) << ", got " << parameter.getType();
  return success();
}
LogicalResult SoftmaxOp::verify() { return verifyDim(*this); }
LogicalResult LogSoftmaxOp::verify() { return verifyDim(*this); }
LogicalResult LayerNormOp::verify() {
  if (failed(verifyDim(*this)))
    return failure();
  return verifyParameters(*this, shapeOf(getX()).drop_front(getDim()), {getScale(), getBias()});
}
LogicalResult RmsNormOp::verify() {
  if (failed(verifyDim(*this)))
    return failure();
  return verifyParameters(*this, shapeOf(getX()).drop_front(getDim()), {getScale()});
}
LogicalResult BatchNormOp::verify() {
  if (failed(verifyDim(*this)))
    return failure();
  if (getRunning().size() != 0 && getRunning().size() != 2)
    return emitOpError("constraint 4: needs both running mean and variance, or neither");
  int64_t groups = getGroups().value_or(1);
  if (groups < 1 || (groups > 1 && (getDim() == 0 || shapeOf(getX())[0] % groups)))
    return emitOpError("constraint 5: the batch of ")
           << getX().getType() << " does not divide into " << groups << " groups";
  SmallVector<Value> parameters = {getScale(), getBias(), getMean(), getVariance()};
  llvm::append_range(parameters, getRunning());
  return verifyParameters(*this, shapeOf(getX()).slice(getDim(), 1), parameters);
}

//===- softmax ------------------------------------------------------------===//

Values SoftmaxOp::decompose(B &b) {
  int64_t dim = getDim();
  Value x = getX(), most = b.reduceMax(x, {dim});
  if (getSafe()) { // the largest x is finite, so that without a finite x all exponentials are zero; else their sum is at least 1
    auto least = llvm::APFloat::getLargest(cast<FloatType>(tensorType(x).getElementType()).getFloatSemantics(), /*Negative=*/true);
    most = b.op<MaxOp>(most, b.splatLike(most, least.convertToDouble()));
  }
  Value e = b.op<ExpOp>(b.sub(x, spread(b, most, x, {dim}))), sum = b.reduceSum(e, {dim});
  if (getSafe())
    sum = b.op<MaxOp>(sum, b.splatLike(sum, 1));
  Value inverse = b.op<ReciprocalOp>(sum);
  return {b.mul(e, spread(b, inverse, e, {dim}))};
}
Values SoftmaxOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  Value g = gradients[0], y = getResult();
  if (!g)
    return {Value()};
  return {b.mul(y, b.sub(g, sumAlong(b, b.mul(g, y), {(int64_t)getDim()})))};
}
dist::ShardingRule SoftmaxOp::getShardingRule() { return normRule(*this, {(int64_t)getDim()}, {}); }

Values LogSoftmaxOp::decompose(B &b) {
  int64_t dim = getDim();
  Value x = getX(), d = b.sub(x, spread(b, b.reduceMax(x, {dim}), x, {dim}));
  Value log = b.op<LogOp>(b.reduceSum(b.op<ExpOp>(d), {dim}));
  return {b.sub(d, spread(b, log, d, {dim}))};
}
Values LogSoftmaxOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  Value g = gradients[0];
  if (!g)
    return {Value()};
  Value p = b.op<ExpOp>(getResult());
  return {b.sub(g, b.mul(p, sumAlong(b, g, {(int64_t)getDim()})))};
}
dist::ShardingRule LogSoftmaxOp::getShardingRule() { return normRule(*this, {(int64_t)getDim()}, {}); }

//===- layer_norm, rms_norm -----------------------------------------------===//

/// Gradient through y = (x - mean) * rstd with respect to x, given n = y and the gradient of y (arXiv 1607.06450, eq.
/// 4, differentiated): rstd * (g - mean(g) - n * mean(g * n)).
static Value normGradient(B &b, Value g, Value n, Value rstd, ArrayRef<int64_t> dims) {
  Value along = b.mul(n, meanAlong(b, b.mul(g, n), dims));
  Value inner = b.sub(b.sub(g, meanAlong(b, g, dims)), along);
  return b.mul(rstd, inner);
}

namespace {
struct Moments {
  Value mean, variance, centered, rstd, normalized; // the last three with x's shape
};
} // namespace

static Moments momentsOf(B &b, Value x, ArrayRef<int64_t> dims, double epsilon) {
  Moments m;
  m.mean = b.reduceMean(x, dims);
  m.centered = b.sub(x, spread(b, m.mean, x, dims));
  m.variance = b.reduceMean(b.mul(m.centered, m.centered), dims);
  m.rstd = spread(b, b.op<RsqrtOp>(b.addConst(m.variance, epsilon)), x, dims);
  m.normalized = b.mul(m.centered, m.rstd);
  return m;
}

Values LayerNormOp::decompose(B &b) {
  Value x = getX();
  auto m = momentsOf(b, x, dimsFrom(x, getDim()), getEpsilon().convertToDouble());
  Value bias = b.broadcastTo(getBias(), shapeOf(x));
  return {b.add(b.mul(m.normalized, b.broadcastTo(getScale(), shapeOf(x))), bias)};
}
Values LayerNormOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  Value g = gradients[0], x = getX();
  if (!g)
    return Values(3);
  auto dims = dimsFrom(x, getDim());
  SmallVector<int64_t> rows = llvm::to_vector(llvm::seq<int64_t>(0, getDim()));
  auto m = momentsOf(b, x, dims, getEpsilon().convertToDouble());
  Value dx = normGradient(b, b.mul(g, b.broadcastTo(getScale(), shapeOf(x))), m.normalized, m.rstd, dims);
  return {dx, b.reduceSum(b.mul(g, m.normalized), rows), b.reduceSum(g, rows)};
}
dist::ShardingRule LayerNormOp::getShardingRule() {
  auto dims = dimsFrom(getX(), getDim());
  return normRule(*this, dims, dims);
}

static Value inverseRms(B &b, Value x, ArrayRef<int64_t> dims, double epsilon) {
  return spread(b, b.op<RsqrtOp>(b.addConst(b.reduceMean(b.mul(x, x), dims), epsilon)), x, dims);
}
Values RmsNormOp::decompose(B &b) {
  Value x = getX();
  Value n = b.mul(x, inverseRms(b, x, dimsFrom(x, getDim()), getEpsilon().convertToDouble()));
  return {b.mul(n, b.broadcastTo(getScale(), shapeOf(x)))};
}
Values RmsNormOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  Value g = gradients[0], x = getX();
  if (!g)
    return Values(2);
  auto dims = dimsFrom(x, getDim());
  Value r = inverseRms(b, x, dims, getEpsilon().convertToDouble());
  Value n = b.mul(x, r), gs = b.mul(g, b.broadcastTo(getScale(), shapeOf(x)));
  Value dx = b.mul(r, b.sub(gs, b.mul(n, meanAlong(b, b.mul(gs, n), dims))));
  return {dx, b.reduceSum(b.mul(g, n), llvm::to_vector(llvm::seq<int64_t>(0, getDim())))};
}
dist::ShardingRule RmsNormOp::getShardingRule() {
  auto dims = dimsFrom(getX(), getDim());
  return normRule(*this, dims, dims);
}

//===- batch_norm ---------------------------------------------------------===//

static Value perChannel(B &b, Value value, Value x, int64_t dim) { return b.broadcast(value, shapeOf(x), {dim}); }

namespace {
/// A batch in groups: x as [groups, batch / groups, ...]. Statistics keep the group and dimension `dim`.
struct Grouped {
  Value x;
  int64_t dim;
  SmallVector<int64_t> reduced;
};
} // namespace

static SmallVector<int64_t> groupedShape(ArrayRef<int64_t> shape, int64_t groups) {
  SmallVector<int64_t> result = {groups, shape[0] / groups};
  result.append(shape.begin() + 1, shape.end());
  return result;
}

static Grouped grouped(B &b, BatchNormOp op, Value value) {
  int64_t dim = op.getDim(), groups = op.getGroups().value_or(1);
  if (groups == 1)
    return {value, dim, dimsBut(value, dim)};
  Value x = b.reshape(value, groupedShape(shapeOf(value), groups));
  SmallVector<int64_t> reduced = dimsBut(x, dim + 1);
  reduced.erase(reduced.begin());
  return {x, dim + 1, reduced};
}

/// The mean of a statistic over the groups; the statistic itself if there is one group.
static Value meanOfGroups(B &b, BatchNormOp op, Value statistic) {
  return op.getGroups().value_or(1) == 1 ? statistic : b.reduceMean(statistic, {0});
}

Values BatchNormOp::decompose(B &b) {
  Grouped g = grouped(b, *this, getX());
  auto m = momentsOf(b, g.x, g.reduced, getEpsilon().convertToDouble());
  Value bias = perChannel(b, getBias(), g.x, g.dim);
  Value y = b.add(b.mul(m.normalized, perChannel(b, getScale(), g.x, g.dim)), bias);
  const double count = (double)tensorType(g.x).getNumElements() / std::max<int64_t>(tensorType(m.variance).getNumElements(), 1);
  Value variance = getSample() && count > 1 ? b.scale(m.variance, count / (count - 1)) : m.variance;
  return {b.reshape(y, shapeOf(getX())), meanOfGroups(b, *this, m.mean), meanOfGroups(b, *this, variance)};
}
Values BatchNormOp::buildEvaluation(B &b) {
  if (getRunning().size() != 2)
    return {Value(), Value(), Value()};
  Value x = getX(), mean = getRunning()[0], variance = getRunning()[1];
  int64_t dim = getDim();
  Value scale = b.mul(getScale(), b.op<RsqrtOp>(b.addConst(variance, getEpsilon().convertToDouble())));
  Value centered = b.sub(x, perChannel(b, mean, x, dim));
  Value bias = perChannel(b, getBias(), x, dim);
  return {b.add(b.mul(centered, perChannel(b, scale, x, dim)), bias), mean, variance};
}
/// No gradient flows through the results that are statistics, because they only update running averages.
Values BatchNormOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  Values result(getNumOperands());
  if (!gradients[0])
    return result;
  Grouped in = grouped(b, *this, getX());
  Value g = grouped(b, *this, gradients[0]).x, x = in.x;
  auto m = momentsOf(b, x, in.reduced, getEpsilon().convertToDouble());
  // Given the sums of g and of g * n per channel, which are the gradients of bias and scale, dx needs no other
  // reduction.
  Value dbias = b.reduceSum(g, in.reduced), dscale = b.reduceSum(b.mul(g, m.normalized), in.reduced);
  double inverse = (double)tensorType(dbias).getNumElements() / tensorType(x).getNumElements();
  Value along = b.mul(m.normalized, spread(b, b.scale(dscale, inverse), x, in.reduced));
  Value inner = b.sub(b.sub(g, spread(b, b.scale(dbias, inverse), x, in.reduced)), along);
  Value dx = b.mul(b.mul(m.rstd, perChannel(b, getScale(), x, in.dim)), inner);
  bool single = getGroups().value_or(1) == 1;
  result[0] = b.reshape(dx, shapeOf(getX()));
  result[1] = single ? dscale : b.reduceSum(dscale, {0});
  result[2] = single ? dbias : b.reduceSum(dbias, {0});
  return result;
}
dist::ShardingRule BatchNormOp::getShardingRule() {
  return normRule(*this, dimsBut(getX(), getDim()), {(int64_t)getDim()});
}
