#include "step/Rows.h"

using namespace divisi;
using namespace divisi::step;
using llvm::ArrayRef;

RowSet step::rowsOfShape(ArrayRef<int64_t> shape) {
  RowSet rows = {1};
  for (int64_t size : shape)
    if (size != 1)
      rows.push_back(rows.back() * size);
  return rows;
}

/// The factors of the leading dimensions, up to the first dimension that has none.
static llvm::SmallVector<int> leadingFactors(const dist::ShardingRule &rule, const dist::ShardingRule::Dims &dims,
                                             ArrayRef<int64_t> shape) {
  llvm::SmallVector<int> factors;
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

RowSet step::rowsThrough(const dist::ShardingRule &rule, unsigned operand, ArrayRef<int64_t> operandShape,
                         ArrayRef<int64_t> resultShape) {
  auto from = leadingFactors(rule, rule.operands[operand], operandShape);
  auto to = leadingFactors(rule, rule.results[0], resultShape);
  RowSet rows = {1};
  for (auto [a, b] : llvm::zip(from, to)) {
    const auto &factor = rule.factors[a];
    if (a != b || factor.whole || factor.reduction)
      break;
    rows.push_back(rows.back() * factor.size);
  }
  return rows;
}

int64_t step::chooseRows(const RowSet &rows, int64_t points, bool flat) {
  constexpr int64_t shortRow = 16; // shorter ones vectorize badly
  if (flat || rows.back() != points)
    return rows.back();
  for (int64_t count : llvm::reverse(rows))
    if (count > 0 && points / count >= shortRow)
      return count;
  return points;
}

RowSet step::intersect(const RowSet &a, const RowSet &b) {
  RowSet result;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(result));
  return result;
}
