#include "dialects/Graph/GraphBuilder.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::graph;
using Values = SmallVector<Value>;
using B = GraphBuilder;

#define GET_OP_CLASSES
#include "dialects/Graph/Loss.cpp.inc"

void GraphDialect::addLoss() {
  addOperations<
#define GET_OP_LIST
#include "dialects/Graph/Loss.cpp.inc"
      >();
}

LogicalResult CrossEntropyOp::verify() {
  ArrayRef<int64_t> logits = shapeOf(getLogits()), labels = shapeOf(getLabels());
  if (logits.size() < 2 || !isa<FloatType>(tensorType(getLogits()).getElementType()))
    return emitOpError("constraint 1: expected floating-point logits of rank 2 or more, got ") << getLogits().getType();
  SmallVector<int64_t> expected(logits);
  expected.erase(expected.begin() + 1);
  if (ArrayRef<int64_t>(expected) != labels || labels != shapeOf(getResult()) ||
      tensorType(getResult()).getElementType() != tensorType(getLogits()).getElementType())
    return emitOpError("constraint 2: expected labels and a result of the logits' shape without dimension 1, got ")
           << getLabels().getType() << " and " << getResult().getType();
  return success();
}

/// Whether the class (dimension 1 of the logits [batch, classes, d..]) is the label of its position.
static Value isLabel(B &b, Value logits, Value labels) {
  ArrayRef<int64_t> shape = shapeOf(logits);
  Value label = b.broadcastAlong(labels, shape, {1});
  return b.compare(Predicate::eq, b.iota(shape, 1), label);
}

Values CrossEntropyOp::decompose(B &b) {
  Value x = getLogits();
  Value largest = b.reduceMax(x, {1});
  Value sum = b.reduceSum(b.op<ExpOp>(b.sub(x, b.broadcastAlong(largest, shapeOf(x), {1}))), {1});
  Value chosen = b.reduceSum(b.keepWhere(isLabel(b, x, getLabels()), x), {1});
  Value loss = b.sub(b.add(largest, b.op<LogOp>(sum)), chosen);
  return {b.keepWhere(b.isWithin(getLabels(), 0, shapeOf(x)[1]), loss)};
}

/// (softmax(x) - [class is the label]) * g; zero where the label is out of range.
Values CrossEntropyOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  Value g = gradients[0], x = getLogits();
  if (!g)
    return Values(2);
  auto shape = shapeOf(x);
  Value valid = b.isWithin(getLabels(), 0, shape[1]);
  Value each = b.broadcastAlong(b.keepWhere(valid, g), shape, {1});
  Value e = b.op<ExpOp>(b.sub(x, b.broadcastAlong(b.reduceMax(x, {1}), shape, {1})));
  Value p = b.mul(e, b.broadcastAlong(b.op<ReciprocalOp>(b.reduceSum(e, {1})), shape, {1}));
  Value none = b.splatLike(x, 0), one = b.splatLike(x, 1);
  Value hit = b.select(isLabel(b, x, getLabels()), one, none);
  return {b.mul(b.sub(p, hit), each), Value()};
}

std::pair<Value, Value> CrossEntropyOp::buildAccuracy(B &b) {
  Value x = getLogits(), labels = getLabels(), one = b.splatLike(labels, 1), zero = b.splatLike(labels, 0);
  // The first class with the largest logit, by reductions: these split along the classes, arg_max does not.
  ArrayRef<int64_t> shape = shapeOf(x);
  Value largest = b.broadcastAlong(b.reduceMax(x, {1}), shape, {1}), classes = b.iota(shape, 1);
  Value behind = b.splatLike(classes, shape[1]);
  Value among = b.select(b.compare(Predicate::eq, x, largest), classes, behind);
  Value hit = b.compare(Predicate::eq, b.cast(b.reduce<ReduceMinOp>(among, {1}), tensorType(labels).getElementType()), labels);
  Value valid = b.isWithin(labels, 0, shape[1]);
  return {b.sumAll(b.select(hit, one, zero)), b.sumAll(b.select(valid, one, zero))};
}

dist::ShardingRule CrossEntropyOp::getShardingRule() {
  std::string rest;
  for (int64_t d = 1; d < tensorType(getLabels()).getRank(); ++d)
    rest += " d" + std::to_string(d);
  return dist::ShardingRule("n c" + rest + ",n" + rest + "->n" + rest, *this).whole("c");
}
