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

void ValidRows::clone(Operation &op, llvm::function_ref<void(Operation &)> cloneOne) {
  if (clonePieces(op, cloneOne))
    return;
  before(op);
  cloneOne(op);
  after(op);
}

bool ValidRows::clonePieces(Operation &op, llvm::function_ref<void(Operation &)> cloneOne) {
  auto composite = dyn_cast<DecomposeInterface>(op);
  if (!composite || !places || !places->needsWhole(&op) || isa<EvaluationInterface>(op))
    return false;
  Block &block = *pieces.emplace_back(std::make_unique<Block>());
  OpBuilder inside(op.getContext());
  inside.setInsertionPointToEnd(&block);
  GraphBuilder b(inside, op.getLoc());
  SmallVector<Value> results = composite.decompose(b);
  for (Operation &piece : block) {
    places->add(piece);
    clone(piece, cloneOne);
  }
  for (auto [result, value] : llvm::zip(op.getResults(), results)) {
    mapping.map(result, mapping.lookup(value));
    if (sums.contains(value))
      sums[result] = Sum(sums.lookup(value));
  }
  return !results.empty();
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

void ValidRows::before(Operation &op) {
  if (auto division = divisionOf(op); division && sums.contains(division->first)) {
    whole.push_back({division->first, mapping.lookup(division->first)});
    mapping.map(division->first, sums.lookup(division->first).raw);
    return;
  }
  auto *combination = places ? places->combines(&op) : nullptr;
  if (!combination)
    return;
  GraphBuilder b(builder, op.getLoc());
  for (auto [i, place] : combination->places) {
    Value operand = op.getOperand(i), x = mapping.lookup(operand);
    Value none = b.constant(DenseElementsAttr::get(tensorType(x), neutralOf(combination->kind, tensorType(x).getElementType())));
    whole.push_back({operand, x});
    mapping.map(operand, b.select(isValid(b, x, place), x, none));
  }
}

/// By how much a divisor may differ from a number of samples, as a share of it.
static constexpr double exact = 1e-5;

/// Whether a sum over `samples` samples, or tuples of samples, with `terms` terms for each is divided as a mean is.
static bool isMean(double divisor, double terms, double samples) {
  const double times = divisor / samples, whole = std::round(times);
  return whole >= 1 && whole <= 1e15 && std::abs(times - whole) <= exact * whole && std::fmod(terms, whole) == 0;
}

std::optional<ValidRows::Sum> ValidRows::sumOf(Operation &op) const {
  auto sharded = dyn_cast<dist::ShardingRuleInterface>(op);
  auto *combination = places->combines(&op);
  const bool continues = op.getNumOperands() > 0 && llvm::all_of(op.getOperands(), [&](Value x) { return isSum(x); });
  if (!sharded || op.getNumResults() != 1 || (!combination && !continues))
    return std::nullopt;
  const dist::ShardingRule rule = sharded.getShardingRule();
  int64_t summed = 1; // by this operation
  for (const auto &factor : rule.factors)
    summed *= factor.reduction ? factor.size : 1;
  if (combination) {
    if (combination->kind != dist::Reduction::sum || rule.linear == dist::Linear::no || rule.accumulator >= 0)
      return std::nullopt;
    Sum sum{summed, (int)combination->factors.size()};
    for (int dim = 0; dim < sum.dims; ++dim)
      sum.terms /= places->batch();
    if (continues) {
      const Sum before = sums.lookup(op.getOperand(0));
      sum.terms *= before.terms, sum.dims += before.dims;
    }
    return sum;
  }
  const bool keeps = rule.linear == dist::Linear::all || rule.linear == dist::Linear::movement || isa<CastOp>(op);
  if (!keeps || tensorType(op.getResult(0)).getElementType().isInteger(1))
    return std::nullopt;
  Sum sum{0, sums.lookup(op.getOperand(0)).dims};
  for (Value operand : op.getOperands()) {
    const Sum other = sums.lookup(operand);
    if (other.dims != sum.dims)
      return std::nullopt;
    sum.terms = std::gcd(sum.terms, other.terms);
  }
  sum.terms *= summed;
  sum.others = summed;
  return sum;
}

void ValidRows::after(Operation &op) {
  if (!places)
    return;
  for (auto [operand, x] : llvm::reverse(whole)) // an operand may be there twice
    mapping.map(operand, x);
  whole.clear();
  auto division = divisionOf(op);
  if (!division || !sums.contains(division->first)) {
    if (auto sum = sumOf(op); sum && sum->terms > 0) {
      sum->raw = mapping.lookup(op.getResult(0));
      sums[op.getResult(0)] = *sum;
    }
    return;
  }
  Value result = op.getResult(0);
  Sum sum = sums.lookup(division->first);
  sum.raw = mapping.lookup(result);
  GraphBuilder b(builder, op.getLoc());
  if (std::exchange(sum.others, 0) == division->second) { // a mean over other dimensions
    sum.terms /= (int64_t)division->second;
  } else {
    sum.divisor *= division->second;
    const bool isWeight = sum.factor && division->second < 1; // of a mean, unless it is part of a deviation's
    if (Value factor = factorOf(b, sum, !isWeight))
      sum.factor = factor;
  }
  if (sum.factor) {
    Value x = b.cast(sum.raw, tensorType(sum.factor).getElementType());
    mapping.map(result, b.cast(b.mul(x, b.broadcast(sum.factor, shapeOf(x), {})), tensorType(sum.raw).getElementType()));
  }
  sums[result] = sum;
}

namespace {
/// A number of n samples' terms: times * n^all * (n - 1)^others - less.
struct Terms {
  double times = 1;
  int all = 0, others = 0;
  double less = 0;
  double of(double n) const { return times * std::pow(n, all) * std::pow(n - 1, others) - less; }
  Value of(GraphBuilder &b, Value n) const {
    Value number = b.splatLike(n, times), other = b.addConst(n, -1);
    for (int i = 0; i < all + others; ++i)
      number = b.mul(number, i < all ? n : other);
    return b.addConst(number, -less);
  }
};
} // namespace

Value ValidRows::factorOf(GraphBuilder &b, const Sum &sum, bool means) {
  const auto batch = (double)places->batch(), terms = (double)sum.terms;
  auto from = [&](Terms number) {
    Type wide = tensorType(sum.raw).getElementType().isF64() ? tensorType(sum.raw).getElementType() : b.getBuilder().getF32Type();
    Value there = number.of(b, b.cast(rows(), wide));
    return b.div(b.splatLike(there, number.of(batch)), there);
  };
  for (int dims = means ? sum.dims : 0; dims > 0; --dims)
    if (Terms number{1, dims}; isMean(sum.divisor, terms * std::pow(batch, sum.dims - dims), number.of(batch)))
      return from(number);
  if (Terms number{1, 1, 1}; means && sum.dims == 2 && isMean(sum.divisor, terms, number.of(batch)))
    return from(number);
  if (Terms number{terms, sum.dims, 0, 1}; isMean(sum.divisor, 1, number.of(batch)))
    return from(number);
  return {};
}
