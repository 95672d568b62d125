#include "passes/Training/SamplePlaces.h"

#include "dialects/Graph/Graph.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::training;

/// The factor of a dimension, major to minor, in which the digit lies.
static std::optional<SamplePlace> inFactor(const dist::ShardingRule &rule, ArrayRef<int> factors, int64_t outer) {
  for (int factor : factors) {
    int64_t size = rule.factors[factor].size;
    if (size % outer == 0 && size > outer)
      return SamplePlace{factor, outer};
    if (outer % size != 0)
      return std::nullopt;
    outer /= size;
  }
  return std::nullopt;
}

static SamplePlace inDimension(const dist::ShardingRule &rule, const dist::ShardingRule::Dims &lists, SamplePlace found) {
  for (auto [d, factors] : llvm::enumerate(lists)) {
    int64_t outer = found.outer;
    for (int factor : factors) {
      if (factor == found.dim)
        return {(int)d, outer};
      outer *= rule.factors[factor].size;
    }
  }
  return {-1};
}

SamplePlaces::SamplePlaces(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments()) {
    ArrayRef<int64_t> shape = graph::shapeOf(argument);
    if (!function.getArgAttr(argument.getArgNumber(), graph::names::input) || shape.empty())
      continue;
    size = size ? size : shape[0];
    if (shape[0] == size)
      places[argument] = {};
  }
  for (Operation &op : function.getBody().front().without_terminator())
    if (auto sharded = dyn_cast<dist::ShardingRuleInterface>(op))
      add(op, sharded.getShardingRule());
}

std::optional<SamplePlace> SamplePlaces::of(Value value) const {
  auto it = places.find(value);
  return it == places.end() ? std::nullopt : std::optional(it->second);
}

void SamplePlaces::add(Operation &op, const dist::ShardingRule &rule) {
  bool depends = false;
  std::optional<SamplePlace> found; // in a factor instead of a dimension
  for (auto [i, lists] : llvm::enumerate(rule.operands)) {
    auto place = of(op.getOperand(i));
    depends |= place.has_value();
    auto inside = place && place->dim >= 0 ? inFactor(rule, lists[place->dim], place->outer) : std::nullopt;
    if (!inside)
      continue;
    found = found ? found : inside;
    const auto &factor = rule.factors[inside->dim];
    // A dimension may have only a part of the batch's index (of pairs of samples, say).
    if (factor.reduction && !factor.indexed && graph::shapeOf(op.getOperand(i))[place->dim] % (place->outer * size) == 0) {
      Combination &combination = combinations[&op];
      if (combination.operands.empty())
        combination.kind = *factor.reduction;
      combination.operands.push_back(i);
    }
  }
  for (auto [result, lists] : llvm::zip(op.getResults(), rule.results))
    if (depends)
      places[result] = found ? inDimension(rule, lists, *found) : SamplePlace{-1};
}

const SamplePlaces::Combination *SamplePlaces::combines(Operation *op) const {
  auto it = combinations.find(op);
  return it == combinations.end() ? nullptr : &it->second;
}
