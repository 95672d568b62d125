#include "step/Work.h"

#include <functional>
#include <numeric>

using namespace divisi;
using namespace divisi::step;

static bool has(const dist::ShardingRule::Dims &dims, int factor) {
  return llvm::any_of(dims, [&](const auto &factors) { return llvm::is_contained(factors, factor); });
}

/// Shorter rows are a few additions, without an end that the next row waits for.
static constexpr double leastRow = 4;

/// The elements of a row of a reduction's operand, if its innermost dimension is summed over; otherwise 1.
static double rowOf(const dist::ShardingRule &rule, llvm::ArrayRef<double> sizes) {
  double row = 1;
  for (const auto &factors : llvm::reverse(rule.operands[0]))
    for (int factor : llvm::reverse(factors)) {
      if (sizes[factor] > 1 && has(rule.results[0], factor))
        return row;
      row *= sizes[factor];
    }
  return row;
}

void Work::shapeBy(const dist::ShardingRule &rule, llvm::ArrayRef<double> sizes, double elements) {
  if (form == graph::Form::attention) { // queries [b, s, h, d], keys [b, t, h, d]
    auto size = [&](const auto &factors) { return factors.empty() ? 1 : sizes[factors[0]]; };
    keys = size(rule.operands[1][1]);
    depth = size(rule.operands[0][3]);
    if (rule.results.size() == 3) // the gradients of queries, keys and values
      scores = std::accumulate(sizes.begin(), sizes.end(), causal ? 0.5 : 1.0, std::multiplies<>()) / depth;
  }
  if (form == graph::Form::reduction && rowOf(rule, sizes) >= leastRow)
    rowSums = elements;
  if (form != graph::Form::product || rule.operands.size() < 2)
    return;
  const auto &outermost = rule.operands[0][0]; // of a convolution: its images
  filters = images && !outermost.empty() && !has(rule.results[0], outermost[0]);
  batch = n = 1;
  for (auto [f, size] : llvm::enumerate(sizes)) {
    bool left = has(rule.operands[0], f), right = has(rule.operands[1], f);
    if (right && has(rule.results[0], f))
      (left ? batch : n) *= size;
  }
  m = std::max(1.0, elements / (batch * n));      // with the window of a filter's gradient
  k = std::max(1.0, flops / (2 * batch * m * n)); // of a convolution with its window
}
