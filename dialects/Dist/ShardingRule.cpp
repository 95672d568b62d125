#include "dialects/Dist/ShardingRule.h"

#include "dialects/Dist/ShardingRuleInterface.cpp.inc"

using namespace mlir;
using namespace divisi::dist;

static ArrayRef<int64_t> shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }

int ShardingRule::addFactor(StringRef name, int64_t size) {
  factors.push_back({name.str(), size});
  return factors.size() - 1;
}

int ShardingRule::indexOf(StringRef name) const {
  for (auto [i, factor] : llvm::enumerate(factors))
    if (factor.name == name)
      return i;
  return -1;
}

int ShardingRule::find(StringRef name) {
  int known = indexOf(name);
  return known >= 0 ? known : addFactor(name, 1);
}

ShardingRule ShardingRule::elementwise(Operation *op, Linear linear) {
  ShardingRule rule;
  rule.linear = linear;
  Dims dims;
  for (auto [d, size] : llvm::enumerate(shapeOf(op->getResult(0))))
    dims.push_back({rule.addFactor("d" + std::to_string(d), size)});
  rule.operands.assign(op->getNumOperands(), dims);
  rule.results.assign(op->getNumResults(), dims);
  return rule;
}

ShardingRule ShardingRule::gather(Operation *op, ArrayRef<int64_t> source, Linear linear) {
  ShardingRule rule;
  rule.linear = linear;
  ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
  Dims result(shape.size()), operand(op->getNumOperands() ? shapeOf(op->getOperand(0)).size() : 0);
  for (auto [d, size] : llvm::enumerate(shape)) {
    int factor = rule.addFactor("d" + std::to_string(d), size);
    result[d].push_back(factor);
    if (d < source.size() && source[d] >= 0)
      operand[source[d]].push_back(factor);
  }
  rule.operands.assign(op->getNumOperands(), operand);
  rule.results.assign(op->getNumResults(), result);
  return rule;
}

ShardingRule ShardingRule::reshape(Operation *op) {
  ShardingRule rule;
  rule.linear = Linear::movement;
  ArrayRef<int64_t> from = shapeOf(op->getOperand(0)), to = shapeOf(op->getResult(0));
  Dims source(from.size()), target(to.size());
  // Goes through both shapes from the major end. Where one dimension divides what is left of the other, it is a common
  // factor.
  size_t i = 0, j = 0;
  int64_t a = from.empty() ? 1 : from[0], b = to.empty() ? 1 : to[0];
  while (i < from.size() && j < to.size()) {
    int64_t common = std::min(a, b);
    if (common == 0 || a % common || b % common)
      break; // sizes that do not nest: the remaining dimensions are never sharded
    if (common > 1) {
      int factor = rule.addFactor("f" + std::to_string(rule.factors.size()), common);
      source[i].push_back(factor);
      target[j].push_back(factor);
    }
    a /= common, b /= common;
    if (a == 1 && ++i < from.size())
      a = from[i];
    if (b == 1 && ++j < to.size())
      b = to[j];
  }
  rule.operands = {source};
  rule.results = {target};
  return rule;
}

ShardingRule ShardingRule::reduce(Operation *op, ArrayRef<int64_t> dims, std::optional<Reduction> kind) {
  ShardingRule rule;
  Dims operand, result;
  for (auto [d, size] : llvm::enumerate(shapeOf(op->getOperand(0)))) {
    int factor = rule.addFactor("d" + std::to_string(d), size);
    operand.push_back({factor});
    if (!llvm::is_contained(dims, (int64_t)d))
      result.push_back({factor});
    else if (kind)
      rule.factors[factor].reduction = kind;
    else
      rule.factors[factor].whole = true;
  }
  rule.operands.assign(op->getNumOperands(), operand);
  rule.results.assign(op->getNumResults(), result);
  if (kind == Reduction::sum)
    rule.linear = Linear::all;
  return rule;
}

ShardingRule &ShardingRule::contract(StringRef name, Reduction kind) {
  factors[find(name)].reduction = kind;
  return *this;
}

bool ShardingRule::isContraction() const {
  auto isSum = [](const Factor &factor) { return factor.reduction == Reduction::sum; };
  return linear == Linear::each && operands.size() == 2 && results.size() == 1 && llvm::any_of(factors, isSum);
}

ShardingRule &ShardingRule::whole(StringRef name) {
  factors[find(name)].whole = true;
  return *this;
}

ShardingRule &ShardingRule::skewed(StringRef name) {
  factors[find(name)].skewed = true;
  return *this;
}
ShardingRule &ShardingRule::indexed(StringRef name) {
  factors[find(name)].indexed = true;
  return *this;
}
