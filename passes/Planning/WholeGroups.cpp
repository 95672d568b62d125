#include "passes/Planning/WholeGroups.h"
#include "passes/Planning/PadClass.h"

#include <numeric>

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;

/// Calls f(tensor, dimension, factors) for the operands and results of an operation.
template <class F> static void forEachDim(const Problem::Op &op, F f) {
  auto look = [&](const auto &tensors, const auto &dimsOf) {
    for (auto [tensor, dims] : llvm::zip(tensors, dimsOf))
      for (auto [d, factors] : llvm::enumerate(dims))
        f(tensor, (int)d, factors);
  };
  look(op.operands, op.rule.operands);
  look(op.results, op.rule.results);
}

WholeGroups::WholeGroups(const Problem &problem) {
  int dims = 0;
  for (const Problem::Tensor &tensor : problem.tensors) {
    first.push_back(dims);
    dims += (int)tensor.shape.size();
  }
  same.grow(dims);
  for (const Problem::Op &op : problem.ops) {
    if (!op.forward)
      continue;
    std::vector<int> known(op.rule.factors.size(), -1);
    forEachDim(op, [&](int tensor, int dim, llvm::ArrayRef<int> factors) {
      if (int f = soleFactor(op.rule, factors); f >= 0)
        known[f] = known[f] < 0 ? first[tensor] + dim : (int)same.join(known[f], first[tensor] + dim);
    });
  }
  same.compress();
  counts.resize(same.getNumClasses());
  for (const Problem::Op &op : problem.ops) {
    if (!op.forward)
      continue;
    forEachDim(op, [&](int tensor, int dim, llvm::ArrayRef<int> factors) {
      auto outer = llvm::find_if(factors, [&](int f) { return op.rule.factors[f].size > 1; });
      if (outer == factors.end() || soleFactor(op.rule, factors) >= 0)
        return;
      int64_t &count = counts[same[first[tensor] + dim]];
      count = std::gcd(count, op.rule.factors[*outer].size);
    });
  }
}

int64_t WholeGroups::of(const Problem::Op &op, int factor) const {
  int64_t count = 0;
  forEachDim(op, [&](int tensor, int dim, llvm::ArrayRef<int> factors) {
    if (soleFactor(op.rule, factors) == factor)
      count = std::gcd(count, counts[same[first[tensor] + dim]]);
  });
  return count;
}
