#include "dialects/Graph/Neutral.h"
#include "passes/Training/ValidRows.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::graph;
using namespace divisi::training;

static bool isFloat(Value x) { return isa<FloatType>(tensorType(x).getElementType()); }

ValidRows::ValidRows(StepFunction &step, OpBuilder &builder, func::FuncOp loss, IRMapping &mapping)
    : step(step), builder(builder), mapping(mapping), places(loss), active(places.batch() > 1) {
  for (unsigned i = 0; i < loss.getNumArguments(); ++i)
    if (auto name = loss.getArgAttrOfType<StringAttr>(i, names::scalar); name && name.getValue() == "rows")
      active = false;
  for (unsigned i = 0; i < loss.getNumResults(); ++i)
    active &= !loss.getResultAttr(i, "graph.count");
}

Value ValidRows::rows() {
  if (!rowsArgument) {
    auto name = builder.getNamedAttr(names::scalar, builder.getStringAttr("rows"));
    rowsArgument = step.addArgument(RankedTensorType::get({}, builder.getI64Type()), builder.getDictionaryAttr(name), builder.getUnknownLoc());
  }
  return rowsArgument;
}

Value ValidRows::isValid(GraphBuilder &b, Value x, SamplePlace place) {
  const int64_t size = shapeOf(x)[place.dim], inner = size / (place.outer * places.batch());
  Value sample = b.iota({size}, 0);
  if (inner > 1)
    sample = b.div(sample, b.splatLike(sample, (double)inner));
  if (place.outer > 1)
    sample = b.op<RemOp>(sample, b.splatLike(sample, (double)places.batch()));
  Value valid = b.compare(Predicate::lt, sample, b.broadcast(rows(), {size}, {}));
  return b.broadcast(valid, shapeOf(x), {place.dim});
}

void ValidRows::before(Operation &op) {
  combination = active ? places.combines(&op) : std::nullopt;
  if (!combination)
    return;
  GraphBuilder b(builder, op.getLoc());
  for (unsigned i : combination->operands) {
    Value operand = op.getOperand(i), x = mapping.lookup(operand);
    Value valid = isValid(b, x, *places.of(operand));
    Value none = b.constant(DenseElementsAttr::get(tensorType(x), neutralOf(combination->kind, tensorType(x).getElementType())));
    whole.push_back({operand, x});
    mapping.map(operand, b.select(valid, x, none));
  }
}

void ValidRows::after(Operation &op) {
  for (auto [operand, x] : whole)
    mapping.map(operand, x);
  whole.clear();
  const bool sums = combination && combination->kind == dist::Reduction::sum;
  const bool follows = llvm::any_of(op.getOperands(), [&](Value operand) { return unscaled.contains(operand); });
  GraphBuilder b(builder, op.getLoc());
  for (Value result : op.getResults()) {
    if (sums ? isFloat(result) : follows && isa<CastOp>(op) && isFloat(result))
      scale(b, result);
    else if ((sums || follows) && !isFloat(result) && !tensorType(result).getElementType().isInteger(1))
      unscaled.insert(result);
  }
}

void ValidRows::scale(GraphBuilder &b, Value result) {
  Value x = mapping.lookup(result), number = b.cast(rows(), b.getBuilder().getF32Type());
  Value factor = b.cast(b.div(b.splatLike(number, (double)places.batch()), number), tensorType(x).getElementType());
  mapping.map(result, b.mul(x, b.broadcast(factor, shapeOf(x), {})));
}
