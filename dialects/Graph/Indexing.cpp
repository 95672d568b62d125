#include "dialects/Graph/GraphBuilder.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::graph;
using Values = SmallVector<Value>;
using B = GraphBuilder;

#define GET_OP_CLASSES
#include "dialects/Graph/Indexing.cpp.inc"

void GraphDialect::addIndexing() {
  addOperations<
#define GET_OP_LIST
#include "dialects/Graph/Indexing.cpp.inc"
      >();
}

static LogicalResult checkDim(std::optional<Location> loc, int64_t dim, RankedTensorType type) {
  if (dim < 0 || dim >= type.getRank())
    return emitOptionalError(loc, "constraint 1: dim ", dim, " is out of range for ", type);
  return success();
}
static std::string factors(StringRef prefix, int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i)
    text += (prefix + Twine(i) + " ").str();
  return text;
}

//===- gather, scatter_add ------------------------------------------------===//

LogicalResult GatherOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  auto x = tensorType(adaptor.getX()), indices = tensorType(adaptor.getIndices());
  int64_t dim = adaptor.getDim();
  if (failed(checkDim(loc, dim, x)))
    return failure();
  SmallVector<int64_t> shape(x.getShape().take_front(dim));
  llvm::append_range(shape, indices.getShape());
  llvm::append_range(shape, x.getShape().drop_front(dim + 1));
  types.push_back(RankedTensorType::get(shape, x.getElementType()));
  return success();
}
Values GatherOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  if (!gradients[0])
    return Values(2);
  return {b.op<ScatterAddOp>(b.splatLike(getX(), 0), getIndices(), gradients[0], getDim()), Value()};
}
dist::ShardingRule GatherOp::getShardingRule() {
  int64_t before = getDim(), after = tensorType(getX()).getRank() - before - 1;
  std::string a = factors("a", before), i = factors("i", tensorType(getIndices()).getRank()), c = factors("c", after);
  dist::ShardingRule rule(a + "row " + c + "," + i + "->" + a + i + c, *this);
  return rule.contract("row", dist::Reduction::sum).indexed("row");
}

/// Indices relative to this device's rows of a sharded table.
static Value localIndices(B &b, dist::LocalContext &context, dist::AxesRef axes, Value indices, int64_t rows) {
  Value first = b.scale(context.pieceIndex(axes), rows);
  return b.sub(indices, b.broadcast(first, shapeOf(indices), {}));
}

/// Rows of other devices are read as zeros: the result is a pending sum.
Value GatherOp::makeLocal(dist::LocalContext &context) {
  dist::AxesRef axes = context.factorAxes()[context.factorOf("row")];
  if (axes.empty())
    return {};
  B b(context.builder(), getLoc());
  int64_t dim = getDim(), rows = shapeOf(getX())[dim], rank = tensorType(getIndices()).getRank();
  Value local = localIndices(b, context, axes, getIndices(), rows);
  Value here = b.isWithin(local, 0, rows);
  Value gathered = b.gather(getX(), local, dim);
  Value mask = b.broadcast(here, shapeOf(gathered), llvm::to_vector(llvm::seq<int64_t>(dim, dim + rank)));
  return b.keepWhere(mask, gathered);
}

LogicalResult ScatterAddOp::verify() {
  auto x = tensorType(getX()), indices = tensorType(getIndices());
  if (failed(checkDim(getLoc(), getDim(), x)))
    return failure();
  SmallVector<int64_t> shape(x.getShape().take_front(getDim()));
  llvm::append_range(shape, indices.getShape());
  llvm::append_range(shape, x.getShape().drop_front(getDim() + 1));
  if (shapeOf(getUpdates()) != ArrayRef<int64_t>(shape))
    return emitOpError("constraint 2: updates do not have the shape of the rows that indices name");
  return success();
}
Values ScatterAddOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  if (!gradients[0])
    return Values(3);
  return {gradients[0], Value(), b.gather(gradients[0], getIndices(), getDim())};
}
dist::ShardingRule ScatterAddOp::getShardingRule() {
  int64_t before = getDim(), after = tensorType(getX()).getRank() - before - 1;
  int64_t rank = tensorType(getIndices()).getRank();
  std::string a = factors("a", before), i = factors("i", rank), c = factors("c", after);
  dist::ShardingRule rule(a + "row " + c + "," + i + "," + a + i + c + "->" + a + "row " + c, *this);
  // Each device adds its partial sums to x, which must therefore be zero or partial itself.
  auto shard = dist::shardOf(getX().getType());
  bool partial = matchPattern(getX(), m_Zero()) || matchPattern(getX(), m_AnyZeroFloat()) ||
                 (shard && !shard.getPending().empty());
  for (int64_t d = 0; d < rank; ++d) {
    std::string factor = "i" + std::to_string(d);
    partial ? rule.contract(factor, dist::Reduction::sum) : rule.whole(factor);
  }
  return rule.indexed("row").accumulateInto(0);
}
/// Writes to rows of other devices are out of range here and therefore dropped.
Value ScatterAddOp::makeLocal(dist::LocalContext &context) {
  dist::AxesRef axes = context.factorAxes()[context.factorOf("row")];
  if (axes.empty())
    return {};
  B b(context.builder(), getLoc());
  Value local = localIndices(b, context, axes, getIndices(), shapeOf(getX())[getDim()]);
  return b.op<ScatterAddOp>(getX(), local, getUpdates(), getDim());
}

//===- gather_elements, scatter_elements ----------------------------------===//

LogicalResult GatherElementsOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                                 SmallVectorImpl<Type> &types) {
  auto x = tensorType(adaptor.getX()), indices = tensorType(adaptor.getIndices());
  if (failed(checkDim(loc, adaptor.getDim(), x)))
    return failure();
  if (indices.getRank() != x.getRank())
    return emitOptionalError(loc, "constraint 2: gather_elements expects x and indices of one rank");
  for (int64_t d = 0; d < x.getRank(); ++d)
    if (d != (int64_t)adaptor.getDim() && indices.getDimSize(d) > x.getDimSize(d))
      return emitOptionalError(loc, "constraint 3: indices are larger than x in dimension ", d);
  types.push_back(RankedTensorType::get(indices.getShape(), x.getElementType()));
  return success();
}
Values GatherElementsOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  if (!gradients[0])
    return Values(2);
  return {b.op<ScatterElementsOp>(getX().getType(), b.splatLike(getX(), 0), getIndices(), gradients[0], getDim(),
                                  Combine::add),
          Value()};
}
/// Dimensions other than `dim` are factors if all tensors have the same size there.
static dist::ShardingRule elementsRule(Operation *op, int64_t dim) {
  dist::ShardingRule rule;
  ArrayRef<int64_t> x = shapeOf(op->getOperand(0)), indices = shapeOf(op->getOperand(1));
  dist::ShardingRule::Dims dims(x.size());
  for (size_t d = 0; d < x.size(); ++d)
    if ((int64_t)d != dim && x[d] == indices[d])
      dims[d].push_back(rule.addFactor("d" + std::to_string(d), x[d]));
  rule.operands.assign(op->getNumOperands(), dims);
  rule.results = {dims};
  return rule;
}
dist::ShardingRule GatherElementsOp::getShardingRule() { return elementsRule(*this, getDim()); }

LogicalResult ScatterElementsOp::verify() {
  if (failed(checkDim(getLoc(), getDim(), tensorType(getX()))))
    return failure();
  if (shapeOf(getIndices()) != shapeOf(getUpdates()) || shapeOf(getIndices()).size() != shapeOf(getX()).size())
    return emitOpError("constraint 2: expected indices and updates of one shape and of x's rank");
  for (auto [d, size] : llvm::enumerate(shapeOf(getIndices())))
    if ((int64_t)d != (int64_t)getDim() && size > shapeOf(getX())[d])
      return emitOpError("constraint 3: indices are larger than x in dimension ") << d;
  return success();
}

/// Gradients of x and the updates for a scatter that keeps the greatest or the least value: those nearest to the result
/// share its gradient. They equal the result except for rounding.
template <typename Read, typename Scatter>
static Values extremeGradient(B &b, Combine combine, Value g, Value x, Value updates, Read read, Scatter scatter) {
  auto number = [&](Value isSo, Value like) { return b.keepWhere(isSo, b.splatLike(like, 1)); };
  Value kept = scatter(x, updates, combine);
  Value ofX = b.distance(x, kept), ofUpdates = b.distance(updates, read(kept));
  Value least = scatter(ofX, ofUpdates, Combine::min);
  Value isX = b.compare(Predicate::eq, ofX, least), isUpdate = b.compare(Predicate::eq, ofUpdates, read(least));
  Value nearUpdates = number(isUpdate, updates), nearX = number(isX, x);
  Value share = b.div(g, scatter(nearX, nearUpdates, Combine::add));
  // If no value is equal (NaN), the share is infinite, but no value gets it.
  return {b.keepWhere(isX, share), Value(), b.keepWhere(isUpdate, read(share))};
}

/// Gradients of x and the updates for a scatter that multiplies: each is the product of the other factors. If one
/// factor is zero, only its own gradient is not zero.
template <typename Read, typename Scatter>
static Values productGradient(B &b, Value g, Value x, Value updates, Read read, Scatter scatter) {
  auto isZero = [&](Value v) { return b.compareConst(Predicate::eq, v, 0); };
  auto withoutZero = [&](Value v) {
    Value one = b.splatLike(v, 1);
    return b.select(isZero(v), one, v);
  };
  auto zeros = [&](Value v) {
    Value one = b.splatLike(v, 1);
    return b.keepWhere(isZero(v), one);
  };
  Value factorsOfUpdates = withoutZero(updates), factorsOfX = withoutZero(x);
  Value product = b.mul(g, scatter(factorsOfX, factorsOfUpdates, Combine::mul));
  Value zerosOfUpdates = zeros(updates), zerosOfX = zeros(x);
  Value count = scatter(zerosOfX, zerosOfUpdates, Combine::add);
  auto gradient = [&](Value v, Value product, Value count) {
    Value others = b.sub(count, zeros(v)); // number of other factors that are zero
    Value derivative = b.div(product, withoutZero(v));
    return b.keepWhere(isZero(others), derivative);
  };
  Value ofX = gradient(x, product, count);
  Value countRead = read(count), productRead = read(product);
  return {ofX, Value(), gradient(updates, productRead, countRead)};
}

/// Gradients of a scatter; `read` gathers at its positions. For an overwriting scatter, `kept` is ones with zeros
/// scattered over them: where it is one, the gradient passes to x. If such a scatter has repeated indices, each update
/// gets the full gradient.
template <typename Read, typename Scatter>
static Values scatterGradient(B &b, Combine combine, Value g, Value x, Value updates, Read read, Scatter scatter) {
  switch (combine) {
  case Combine::add:
    return {g, Value(), read(g)};
  case Combine::assign: {
    Value zeros = b.splatLike(updates, 0), ones = b.splatLike(x, 1);
    Value kept = scatter(ones, zeros, Combine::assign);
    return {b.mul(g, kept), Value(), read(g)};
  }
  case Combine::max:
  case Combine::min:
    return extremeGradient(b, combine, g, x, updates, read, scatter);
  case Combine::mul:
    return productGradient(b, g, x, updates, read, scatter);
  }
  llvm_unreachable("unknown combine");
}

Values ScatterElementsOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  if (!gradients[0])
    return Values(3);
  return scatterGradient(
      b, getCombine(), gradients[0], getX(), getUpdates(),
      [&](Value g) { return b.op<GatherElementsOp>(g, getIndices(), getDim()); },
      [&](Value x, Value updates, Combine combine) {
        return b.op<ScatterElementsOp>(x.getType(), x, getIndices(), updates, getDim(), combine);
      });
}
dist::ShardingRule ScatterElementsOp::getShardingRule() { return elementsRule(*this, getDim()); }

//===- gather_nd, scatter_nd ----------------------------------------------===//

/// The shape of the slices of x that `indices` select; fails with the reason.
static FailureOr<SmallVector<int64_t>> slicesShape(std::optional<Location> loc, RankedTensorType x,
                                                   RankedTensorType indices, int64_t batch) {
  if (indices.getRank() < 1 || batch < 0 || batch >= indices.getRank() || batch > x.getRank())
    return emitOptionalError(loc, "constraint 1: batch_dims ", batch, " does not fit ", x, " and ", indices);
  int64_t depth = indices.getShape().back();
  if (depth < 0 || batch + depth > x.getRank())
    return emitOptionalError(loc, "constraint 2: index vectors of length ", depth, " are too long for ", x);
  for (int64_t d = 0; d < batch; ++d)
    if (x.getDimSize(d) != indices.getDimSize(d))
      return emitOptionalError(loc, "constraint 3: x and indices differ in batch dimension ", d);
  SmallVector<int64_t> shape(indices.getShape().drop_back());
  llvm::append_range(shape, x.getShape().drop_front(batch + depth));
  return shape;
}

LogicalResult GatherNdOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                           SmallVectorImpl<Type> &types) {
  auto x = tensorType(adaptor.getX());
  auto shape = slicesShape(loc, x, tensorType(adaptor.getIndices()), adaptor.getBatchDims());
  if (failed(shape))
    return failure();
  types.push_back(RankedTensorType::get(*shape, x.getElementType()));
  return success();
}
Values GatherNdOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  if (!gradients[0])
    return Values(2);
  return {b.op<ScatterNdOp>(getX().getType(), b.splatLike(getX(), 0), getIndices(), gradients[0], getBatchDims(),
                            Combine::add),
          Value()};
}
static dist::ShardingRule ndRule(Operation *op, int64_t batch, bool scatter) {
  int64_t depth = shapeOf(op->getOperand(1)).back(), rank = shapeOf(op->getOperand(0)).size();
  int64_t outer = shapeOf(op->getOperand(1)).size() - 1 - batch;
  std::string a = factors("a", batch), i = factors("i", outer), c = factors("c", rank - batch - depth), d;
  for (int64_t k = 0; k < depth; ++k)
    d += ". ";
  std::string x = a + d + c, indices = a + i + ".", slices = a + i + c;
  if (!scatter)
    return dist::ShardingRule(x + "," + indices + "->" + slices, op);
  dist::ShardingRule rule(x + "," + indices + "," + slices + "->" + x, op);
  for (int64_t k = 0; k < outer; ++k)
    rule.whole("i" + std::to_string(k));
  return rule;
}
dist::ShardingRule GatherNdOp::getShardingRule() { return ndRule(*this, getBatchDims(), false); }

LogicalResult ScatterNdOp::verify() {
  auto shape = slicesShape(getLoc(), tensorType(getX()), tensorType(getIndices()), getBatchDims());
  if (failed(shape))
    return failure();
  if (shapeOf(getUpdates()) != ArrayRef<int64_t>(*shape))
    return emitOpError("constraint 4: updates do not have the shape of the slices that indices name");
  return success();
}
Values ScatterNdOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  if (!gradients[0])
    return Values(3);
  return scatterGradient(
      b, getCombine(), gradients[0], getX(), getUpdates(),
      [&](Value g) { return b.op<GatherNdOp>(g, getIndices(), getBatchDims()); },
      [&](Value x, Value updates, Combine combine) {
        return b.op<ScatterNdOp>(x.getType(), x, getIndices(), updates, getBatchDims(), combine);
      });
}
dist::ShardingRule ScatterNdOp::getShardingRule() { return ndRule(*this, getBatchDims(), true); }

//===- cumsum, top_k ------------------------------------------------------===//

LogicalResult CumsumOp::verify() { return checkDim(getLoc(), getDim(), tensorType(getX())); }
Values CumsumOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  if (!gradients[0])
    return {Value()};
  return {b.op<CumsumOp>(gradients[0].getType(), gradients[0], getDim(), getExclusive(), !getReverse())};
}
dist::ShardingRule CumsumOp::getShardingRule() {
  auto rule = dist::ShardingRule::elementwise(*this, dist::Linear::all);
  rule.factors[getDim()].whole = true;
  return rule;
}

LogicalResult TopKOp::inferReturnTypes(MLIRContext *context, std::optional<Location> loc, Adaptor adaptor,
                                       SmallVectorImpl<Type> &types) {
  auto x = tensorType(adaptor.getX());
  int64_t k = adaptor.getK();
  if (failed(checkDim(loc, adaptor.getDim(), x)))
    return failure();
  SmallVector<int64_t> shape(x.getShape());
  if (k < 0 || k > shape[adaptor.getDim()])
    return emitOptionalError(loc, "constraint 2: k = ", k, " is larger than dimension ", adaptor.getDim(), " of ", x);
  shape[adaptor.getDim()] = k;
  types.push_back(RankedTensorType::get(shape, x.getElementType()));
  types.push_back(RankedTensorType::get(shape, IntegerType::get(context, 64)));
  return success();
}
Values TopKOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  if (!gradients[0])
    return {Value()};
  return {b.op<ScatterElementsOp>(getX().getType(), b.splatLike(getX(), 0), getIndices(), gradients[0], getDim(),
                                  Combine::add)};
}
dist::ShardingRule TopKOp::getShardingRule() {
  dist::ShardingRule rule;
  dist::ShardingRule::Dims dims;
  for (auto [d, size] : llvm::enumerate(shapeOf(getX()))) {
    dims.emplace_back();
    if ((int64_t)d != (int64_t)getDim())
      dims[d].push_back(rule.addFactor("d" + std::to_string(d), size));
  }
  rule.operands = {dims};
  rule.results = {dims, dims};
  return rule;
}
