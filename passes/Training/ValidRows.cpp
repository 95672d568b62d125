#include "dialects/Graph/Neutral.h"
#include "passes/Training/ValidRows.h"

#include <cmath>
#include <numeric>

using namespace mlir;
using namespace divisi;
using namespace divisi::graph;
using namespace divisi::training;

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

/// The product of the sizes of an operation's contracted factors.
static int64_t termsOf(const dist::ShardingRule &rule) {
  int64_t terms = 1;
  for (const auto &factor : rule.factors)
    terms *= factor.reduction ? factor.size : 1;
  return terms;
}

/// The constant by which an operation divides its first operand, or the inverse of one by which it multiplies an operand.
static std::optional<double> divisorOf(Operation &op, Value &dividend) {
  auto number = [](Value x) {
    while (auto broadcast = x.getDefiningOp<BroadcastOp>())
      x = broadcast.getX();
    return splatOf(x);
  };
  if (auto div = dyn_cast<DivOp>(op)) {
    dividend = div.getLhs();
    return number(div.getRhs());
  }
  if (auto mul = dyn_cast<MulOp>(op))
    for (auto [x, c] : {std::pair(mul.getLhs(), mul.getRhs()), std::pair(mul.getRhs(), mul.getLhs())})
      if (auto known = number(c)) {
        dividend = x;
        return 1 / *known;
      }
  return std::nullopt;
}

std::optional<int64_t> ValidRows::sumBehind(Operation &op) const {
  auto sharded = dyn_cast<dist::ShardingRuleInterface>(op);
  if (!sharded || op.getNumResults() != 1)
    return std::nullopt;
  const dist::ShardingRule rule = sharded.getShardingRule();
  if (combination)
    return combination->kind == dist::Reduction::sum && rule.linear != dist::Linear::no && rule.accumulator < 0
               ? std::optional(termsOf(rule) / places.batch())
               : std::nullopt;
  Value dividend;
  if (divisorOf(op, dividend) && sums.contains(dividend))
    return sums.lookup(dividend);
  const bool keeps = rule.linear == dist::Linear::all || rule.linear == dist::Linear::movement || isa<CastOp>(op);
  if (!keeps || op.getNumOperands() == 0 || tensorType(op.getResult(0)).getElementType().isInteger(1))
    return std::nullopt;
  int64_t terms = 0;
  for (Value operand : op.getOperands()) {
    auto known = sums.find(operand);
    if (known == sums.end())
      return std::nullopt;
    terms = std::gcd(terms, known->second);
  }
  return terms * termsOf(rule);
}

bool ValidRows::divides(Operation &op) const {
  Value dividend;
  auto divisor = divisorOf(op, dividend);
  if (!divisor || !sums.contains(dividend))
    return false;
  const double times = *divisor / (double)places.batch(), whole = std::round(times);
  return whole >= 1 && whole <= 1e15 && std::abs(times - whole) <= 1e-5 * whole && sums.lookup(dividend) % (int64_t)whole == 0;
}

void ValidRows::after(Operation &op) {
  for (auto [operand, x] : whole)
    mapping.map(operand, x);
  whole.clear();
  GraphBuilder b(builder, op.getLoc());
  if (divides(op))
    return scale(b, op.getResult(0));
  if (auto terms = sumBehind(op); terms && *terms > 0)
    sums[op.getResult(0)] = *terms;
}

void ValidRows::scale(GraphBuilder &b, Value result) {
  Type wide = b.getBuilder().getF32Type(), element = tensorType(result).getElementType();
  if (element.isF64())
    wide = element;
  Value x = b.cast(mapping.lookup(result), wide), number = b.cast(rows(), wide);
  Value factor = b.div(b.splatLike(number, (double)places.batch()), number);
  mapping.map(result, b.cast(b.mul(x, b.broadcast(factor, shapeOf(x), {})), element));
}
