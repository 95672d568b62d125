#include "passes/Training/SampleSums.h"

#include "dialects/Graph/Graph.h"
#include "dialects/Graph/Nodes.h"
#include "passes/Training/Contraction.h"

#include <cmath>
#include <numeric>

using namespace mlir;
using namespace divisi;
using namespace divisi::graph;
using namespace divisi::training;

double TermCount::of(double rows) const {
  const double count = times * std::pow(rows, power), less = std::max(count - 1, 1.0);
  return kind == all ? count : kind == pairs ? count * less : less;
}

Value TermCount::of(GraphBuilder &b, Value rows) const {
  Value count = rows;
  for (int i = 1; i < power; ++i)
    count = b.mul(count, rows);
  if (times != 1)
    count = b.scale(count, times);
  if (kind == all)
    return count;
  Value less = b.addConst(count, -1);
  less = b.op<MaxOp>(less, b.splatLike(less, 1));
  return kind == pairs ? b.mul(count, less) : less;
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

/// Constants of files are rounded.
static bool isNear(double a, double b) { return std::abs(a - b) <= 1e-5 * std::abs(b); }

/// Whether a sum over `samples` samples, or tuples of samples, with `terms` terms for each is divided as a mean is.
static bool isMean(double divisor, double terms, double samples) {
  const double times = divisor / samples, whole = std::round(times);
  return whole >= 1 && whole <= 1e15 && isNear(times, whole) && std::fmod(terms, whole) == 0;
}

std::optional<SampleSums::Division> SampleSums::divide(Value quotient, Sum sum, double divisor, bool isOfOneNode) {
  const auto batch = (double)places.batch(), terms = (double)sum.terms;
  int dims = 0; // over which it is a mean
  if (isOfOneNode && divisor == (double)sum.lastTerms) {
    if (sum.lastDims == 0) { // over other dimensions
      sum.terms /= sum.lastTerms;
      sum.last = nullptr;
      sums[quotient] = sum;
      return std::nullopt;
    }
    dims = sum.lastDims;
  }
  for (int k = sum.dims; k > 0 && !dims; --k)
    if (isMean(divisor, terms * std::pow(batch, sum.dims - k), std::pow(batch, k)))
      dims = k;
  const TermCount all{TermCount::all, terms, sum.dims};
  if (dims) {
    means.insert(quotient);
    if (dims < sum.dims) {
      sum.dims -= dims;
      sum.last = nullptr;
      sums[quotient] = sum;
    } else if (sum.ofSquares) {
      variances[quotient] = {all};
    }
    return Division{{TermCount::all, 1, dims}, std::nullopt};
  }
  if (TermCount count{TermCount::lessOne, terms, sum.dims}; sum.ofSquares && isNear(divisor, count.of(batch)))
    return Division{count, std::nullopt};
  if (sum.dims == 2) {
    if (TermCount count{TermCount::pairs}; isMean(divisor, terms, count.of(batch)))
      return Division{count, std::nullopt};
    const double views = std::round(std::sqrt(terms)); // of each sample
    if (TermCount count{TermCount::pairs, views}; views * views == terms && isNear(divisor, count.of(batch)))
      return Division{count, std::nullopt};
  }
  sum.last = nullptr;
  sums[quotient] = sum; // a weight
  return std::nullopt;
}

std::optional<SampleSums::Division> SampleSums::add(Operation &op) {
  if (auto division = divisionOf(op)) {
    auto [x, divisor] = *division;
    if (auto it = sums.find(x); it != sums.end()) {
      const Sum sum = it->second;
      return divide(op.getResult(0), sum, divisor, sum.last && pathOf(sum.last) == pathOf(&op));
    }
    if (auto it = variances.find(x); it != variances.end()) {
      Variance variance = it->second;
      variance.divisor *= divisor;
      const TermCount less{TermCount::lessOne, variance.count.times, variance.count.power};
      const auto batch = (double)places.batch();
      if (isNear(variance.divisor, less.of(batch) / variance.count.of(batch)))
        return Division{less, TermCount{TermCount::all, 1, variance.count.power}};
      variances[op.getResult(0)] = variance;
      return std::nullopt;
    }
  }
  if (auto sum = sumOf(op); sum && sum->terms > 0)
    sums[op.getResult(0)] = *sum;
  addDistances(op);
  return std::nullopt;
}

void SampleSums::addDistances(Operation &op) {
  auto sharded = dyn_cast<dist::ShardingRuleInterface>(op);
  if (!sharded || op.getNumResults() != 1 || op.getNumOperands() == 0)
    return;
  auto areAll = [&](const llvm::DenseSet<Value> &set) {
    return llvm::all_of(op.getOperands(), [&](Value x) { return set.contains(x); });
  };
  Value result = op.getResult(0);
  if (auto sub = dyn_cast<SubOp>(op); sub && means.contains(sub.getRhs()))
    centred.insert(result);
  else if (isa<MulOp>(op) && areAll(centred))
    squares.insert(result);
  for (auto *set : {&means, &centred, &squares})
    if (areAll(*set) && sharded.getShardingRule().linear == dist::Linear::movement)
      set->insert(result);
}

std::optional<SampleSums::Sum> SampleSums::sumOf(Operation &op) const {
  auto sharded = dyn_cast<dist::ShardingRuleInterface>(op);
  auto *combination = places.combines(&op);
  auto isSum = [&](Value x) { return sums.contains(x); };
  const bool continues = op.getNumOperands() > 0 && llvm::all_of(op.getOperands(), isSum);
  if (!sharded || op.getNumResults() != 1 || (!combination && !continues))
    return std::nullopt;
  const dist::ShardingRule rule = sharded.getShardingRule();
  int64_t summed = 1; // by this operation
  for (const auto &factor : rule.factors)
    summed *= factor.reduction ? factor.size : 1;
  Sum sum{1, 0};
  if (combination) {
    if (combination->kind != dist::Reduction::sum || rule.linear == dist::Linear::no || rule.accumulator >= 0 ||
        (op.getNumOperands() > 1 && llvm::any_of(op.getOperands(), isSum)))
      return std::nullopt;
    sum.lastDims = combination->dims;
    const bool single = op.getNumOperands() == 1;
    sum.ofSquares = llvm::all_of(op.getOperands(), [&](Value x) { return (single ? squares : centred).contains(x); });
    if (continues)
      sum = sums.lookup(op.getOperand(0)), sum.lastDims = combination->dims;
    sum.dims += combination->dims;
    sum.terms *= summed;
    for (int dim = 0; dim < combination->dims; ++dim)
      sum.terms /= places.batch();
  } else {
    const bool keeps = rule.linear == dist::Linear::all || rule.linear == dist::Linear::movement || isa<CastOp>(op);
    if (!keeps || tensorType(op.getResult(0)).getElementType().isInteger(1))
      return std::nullopt;
    sum = sums.lookup(op.getOperand(0));
    for (Value operand : op.getOperands()) {
      const Sum other = sums.lookup(operand);
      if (other.dims != sum.dims)
        return std::nullopt;
      sum.terms = std::gcd(sum.terms, other.terms);
      sum.ofSquares &= other.ofSquares;
    }
    sum.terms *= summed;
    sum.lastDims = 0;
  }
  const bool reduces = combination || summed > 1;
  if (reduces || op.getNumOperands() > 1)
    sum.last = reduces ? &op : nullptr, sum.lastTerms = summed;
  return sum;
}

void SampleSums::setAlike(Value value, Value known) {
  if (sums.contains(known))
    sums[value] = Sum(sums.lookup(known));
}
