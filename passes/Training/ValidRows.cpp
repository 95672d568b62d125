#include "dialects/Graph/Neutral.h"
#include "passes/Training/Contraction.h"
#include "passes/Training/ValidRows.h"

#include <cmath>
#include <numeric>

using namespace mlir;
using namespace divisi;
using namespace divisi::graph;
using namespace divisi::training;

/// Whether the compiler has added the loss.
static bool knowsRows(func::FuncOp loss) {
  for (unsigned i = 0; i < loss.getNumArguments(); ++i)
    if (auto name = loss.getArgAttrOfType<StringAttr>(i, names::scalar); name && name.getValue() == "rows")
      return true;
  for (unsigned i = 0; i < loss.getNumResults(); ++i)
    if (loss.getResultAttr(i, "graph.count"))
      return true;
  return false;
}

ValidRows::ValidRows(StepFunction &step, OpBuilder &builder, func::FuncOp loss, IRMapping &mapping) : step(step), builder(builder), mapping(mapping) {
  if (!knowsRows(loss) && places.emplace(loss).batch() <= 1)
    places.reset();
}

Value ValidRows::rows() {
  if (!rowsArgument) {
    auto name = builder.getNamedAttr(names::scalar, builder.getStringAttr("rows"));
    rowsArgument = step.addArgument(RankedTensorType::get({}, builder.getI64Type()), builder.getDictionaryAttr(name), builder.getUnknownLoc());
  }
  return rowsArgument;
}

Value ValidRows::isValid(GraphBuilder &b, Value x, SamplePlace place) {
  const int64_t size = shapeOf(x)[place.dim], inner = size / (place.outer * places->batch());
  Value sample = b.iota({size}, 0);
  if (inner > 1)
    sample = b.div(sample, b.splatLike(sample, (double)inner));
  if (place.outer > 1)
    sample = b.op<RemOp>(sample, b.splatLike(sample, (double)places->batch()));
  Value valid = b.compare(Predicate::lt, sample, b.broadcast(rows(), {size}, {}));
  return b.broadcast(valid, shapeOf(x), {place.dim});
}

void ValidRows::before(Operation &op) {
  auto *combination = places ? places->combines(&op) : nullptr;
  if (!combination)
    return;
  GraphBuilder b(builder, op.getLoc());
  for (unsigned i : combination->operands) {
    Value operand = op.getOperand(i), x = mapping.lookup(operand);
    Value valid = isValid(b, x, *places->of(operand));
    Value none = b.constant(DenseElementsAttr::get(tensorType(x), neutralOf(combination->kind, tensorType(x).getElementType())));
    whole.push_back({operand, x});
    mapping.map(operand, b.select(valid, x, none));
  }
}

/// What is divided by a constant, or multiplied by the inverse of one, and the constant.
static std::optional<std::pair<Value, double>> divisionOf(Operation &op) {
  if (auto div = dyn_cast<DivOp>(op))
    if (auto known = numberOf(div.getRhs()))
      return {{div.getLhs(), *known}};
  if (auto mul = dyn_cast<MulOp>(op))
    for (auto [x, c] : {std::pair(mul.getLhs(), mul.getRhs()), std::pair(mul.getRhs(), mul.getLhs())})
      if (auto known = numberOf(c))
        return {{x, 1 / *known}};
  return std::nullopt;
}

/// Whether a sum of `terms` terms for each of `batch` samples is divided as a mean over samples is.
static bool isMean(double divisor, int64_t terms, int64_t batch) {
  const double times = divisor / (double)batch, whole = std::round(times);
  return whole >= 1 && whole <= 1e15 && std::abs(times - whole) <= 1e-5 * whole && terms % (int64_t)whole == 0;
}

std::optional<int64_t> ValidRows::termsOf(Operation &op) const {
  auto sharded = dyn_cast<dist::ShardingRuleInterface>(op);
  auto *combination = places->combines(&op);
  const bool continues = op.getNumOperands() > 0 && llvm::all_of(op.getOperands(), [&](Value x) { return sums.contains(x); });
  if (!sharded || op.getNumResults() != 1 || (!combination && !continues))
    return std::nullopt;
  const dist::ShardingRule rule = sharded.getShardingRule();
  int64_t summed = 1; // by this operation
  for (const auto &factor : rule.factors)
    summed *= factor.reduction ? factor.size : 1;
  if (combination)
    return combination->kind == dist::Reduction::sum && rule.linear != dist::Linear::no && rule.accumulator < 0
               ? std::optional(summed / places->batch())
               : std::nullopt;
  const bool keeps = rule.linear == dist::Linear::all || rule.linear == dist::Linear::movement || isa<CastOp>(op);
  if (!keeps || tensorType(op.getResult(0)).getElementType().isInteger(1))
    return std::nullopt;
  int64_t terms = 0;
  for (Value operand : op.getOperands())
    terms = std::gcd(terms, sums.lookup(operand));
  return terms * summed;
}

void ValidRows::after(Operation &op) {
  if (!places)
    return;
  for (auto [operand, x] : whole)
    mapping.map(operand, x);
  whole.clear();
  if (auto division = divisionOf(op); division && sums.contains(division->first)) {
    const int64_t terms = sums.lookup(division->first);
    if (isMean(division->second, terms, places->batch())) {
      GraphBuilder b(builder, op.getLoc());
      scale(b, op.getResult(0));
    } else {
      sums[op.getResult(0)] = terms;
    }
  } else if (auto terms = termsOf(op); terms && *terms > 0) {
    sums[op.getResult(0)] = *terms;
  }
}

void ValidRows::scale(GraphBuilder &b, Value result) {
  Type wide = b.getBuilder().getF32Type(), element = tensorType(result).getElementType();
  if (element.isF64())
    wide = element;
  Value x = b.cast(mapping.lookup(result), wide), number = b.cast(rows(), wide);
  Value factor = b.div(b.splatLike(number, (double)places->batch()), number);
  mapping.map(result, b.cast(b.mul(x, b.broadcast(factor, shapeOf(x), {})), element));
}
