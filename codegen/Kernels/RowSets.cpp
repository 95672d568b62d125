#include "codegen/Kernels/RowSets.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;

RowSet codegen::rowsOfShape(ArrayRef<int64_t> shape) {
  RowSet rows = {1};
  for (int64_t size : shape)
    if (size != 1)
      rows.push_back(rows.back() * size);
  return rows;
}

/// The factors of the leading dimensions, up to the first dimension that has none.
static SmallVector<int> leadingFactors(const dist::ShardingRule &rule, const dist::ShardingRule::Dims &dims,
                                       ArrayRef<int64_t> shape) {
  SmallVector<int> factors;
  for (auto [d, list] : llvm::enumerate(dims)) {
    int64_t product = 1;
    for (int factor : list) {
      product *= rule.factors[factor].size;
      if (rule.factors[factor].size != 1)
        factors.push_back(factor);
    }
    if (product != shape[d])
      break; // not (only) factors: what follows is not a leading dimension any more
  }
  return factors;
}

RowSet codegen::rowsThrough(Operation *op, unsigned operand) {
  auto rule = cast<dist::ShardingRuleInterface>(op).getShardingRule();
  auto from = leadingFactors(rule, rule.operands[operand], graph::shapeOf(op->getOperand(operand)));
  auto to = leadingFactors(rule, rule.results[0], graph::shapeOf(op->getResult(0)));
  RowSet rows = {1};
  for (auto [a, b] : llvm::zip(from, to)) {
    const auto &factor = rule.factors[a];
    if (a != b || factor.whole || factor.reduction)
      break;
    rows.push_back(rows.back() * factor.size);
  }
  return rows;
}

RowSet codegen::intersect(const RowSet &a, const RowSet &b) {
  RowSet result;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(result));
  return result;
}
