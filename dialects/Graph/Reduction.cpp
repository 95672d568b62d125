#include "dialects/Graph/GraphBuilder.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::graph;
using Values = SmallVector<Value>;
using B = GraphBuilder;

#define GET_OP_CLASSES
#include "dialects/Graph/Reduction.cpp.inc"

void GraphDialect::addReduction() {
  addOperations<
#define GET_OP_LIST
#include "dialects/Graph/Reduction.cpp.inc"
      >();
}

static LogicalResult inferReduction(std::optional<Location> loc, RankedTensorType type, ArrayRef<int64_t> dims,
                                    Type element, SmallVectorImpl<Type> &types) {
  llvm::SmallBitVector reduced(type.getRank());
  for (int64_t d : dims) {
    if (d < 0 || d >= type.getRank() || reduced.test(d))
      return emitOptionalError(loc, "constraint 1: reduced dimension ", d, " is out of range or repeated for rank ",
                               type.getRank());
    reduced.set(d);
  }
  SmallVector<int64_t> shape;
  for (int64_t d = 0; d < type.getRank(); ++d)
    if (!reduced.test(d))
      shape.push_back(type.getDimSize(d));
  types.push_back(RankedTensorType::get(shape, element));
  return success();
}

/// Broadcasts the reduced value along the reduced dimensions.
template <typename OpT> static Value spread(OpT op, B &b, Value reduced) {
  return b.broadcastAlong(reduced, shapeOf(op.getX()), op.getDims());
}

/// Gradient of max and min: it flows to the elements that equal the result, in equal shares. In the backward pass x may
/// have other bits than those from which the result was chosen (rematerialization, sums over devices in another order),
/// so that no element is equal. Therefore the nearest elements are taken. There is always one, unless x contains a NaN.
template <typename OpT> static Values extremumGradient(OpT op, B &b, Value g) {
  if (!g)
    return {Value()};
  Value distance = b.distance(op.getX(), spread(op, b, op.getResult()));
  Value least = b.reduce<ReduceMinOp>(distance, op.getDims());
  Value hit = b.compare(Predicate::eq, distance, spread(op, b, least));
  Value ones = b.indicator(hit, distance);
  Value share = b.div(g, b.reduceSum(ones, op.getDims()));
  return {b.mul(ones, spread(op, b, share))};
}

LogicalResult AccumulateOp::inferReturnTypes(MLIRContext *, std::optional<Location>, Adaptor adaptor,
                                             SmallVectorImpl<Type> &types) {
  auto type = tensorType(adaptor.getX());
  types.push_back(RankedTensorType::get(type.getShape(), type.getElementType()));
  return success();
}
dist::ShardingRule AccumulateOp::getShardingRule() {
  return dist::ShardingRule::elementwise(*this, (*this)->hasAttr("combine") ? dist::Linear::no : dist::Linear::all);
}
Values AccumulateOp::buildGradient(B &, ArrayRef<Value> gradients) { return {gradients[0]}; }

#define REDUCTION(OP, KIND)                                                                                            \
  LogicalResult OP::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,                      \
                                     SmallVectorImpl<Type> &types) {                                                   \
    auto type = tensorType(adaptor.getX());                                                                            \
    return inferReduction(loc, type, adaptor.getDims(), type.getElementType(), types);                                 \
  }                                                                                                                    \
  dist::ShardingRule OP::getShardingRule() { return dist::ShardingRule::reduce(*this, getDims(), KIND); }
REDUCTION(ReduceSumOp, dist::Reduction::sum)
REDUCTION(ReduceMaxOp, dist::Reduction::max)
REDUCTION(ReduceMinOp, dist::Reduction::min)
REDUCTION(ReduceProdOp, std::nullopt)

Values ReduceSumOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  return {gradients[0] ? spread(*this, b, gradients[0]) : Value()};
}
Values ReduceMaxOp::buildGradient(B &b, ArrayRef<Value> gradients) { return extremumGradient(*this, b, gradients[0]); }
Values ReduceMinOp::buildGradient(B &b, ArrayRef<Value> gradients) { return extremumGradient(*this, b, gradients[0]); }

/// The gradient is the product of the other elements: the result divided by x if no element is zero. With one zero,
/// only that element has a gradient; with two zeros, none has.
Values ReduceProdOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  if (!gradients[0])
    return {Value()};
  Value x = getX(), zero = b.compareConst(Predicate::eq, x, 0);
  Value one = b.splatLike(x, 1), none = b.splatLike(x, 0);
  Value safe = b.select(zero, one, x);
  Value rest = spread(*this, b, b.reduce<ReduceProdOp>(safe, getDims()));
  Value zeros = spread(*this, b, b.reduceSum(b.select(zero, one, none), getDims()));
  Value othersZero = b.sub(zeros, b.select(zero, one, none));
  Value others = b.div(rest, safe);
  Value slope = b.select(b.compareConst(Predicate::eq, othersZero, 0), others, none);
  return {b.mul(spread(*this, b, gradients[0]), slope)};
}

#define ARG_REDUCTION(OP)                                                                                              \
  LogicalResult OP::inferReturnTypes(MLIRContext *context, std::optional<Location> loc, Adaptor adaptor,               \
                                     SmallVectorImpl<Type> &types) {                                                   \
    return inferReduction(loc, tensorType(adaptor.getX()), {(int64_t)adaptor.getDim()}, IntegerType::get(context, 64), \
                          types);                                                                                      \
  }                                                                                                                    \
  dist::ShardingRule OP::getShardingRule() {                                                                           \
    return dist::ShardingRule::reduce(*this, {(int64_t)getDim()}, std::nullopt);                                       \
  }                                                                                                                    \
  Values OP::buildGradient(B &, ArrayRef<Value>) { return {Value()}; }
ARG_REDUCTION(ArgMaxOp)
ARG_REDUCTION(ArgMinOp)
