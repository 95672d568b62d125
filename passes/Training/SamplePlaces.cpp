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

/// The dimensions of a tensor in which these factors are.
static SmallVector<SamplePlace, 1> inDimensions(const dist::ShardingRule &rule, const dist::ShardingRule::Dims &lists,
                                                ArrayRef<SamplePlace> found) {
  SmallVector<SamplePlace, 1> result;
  for (SamplePlace place : found)
    for (auto [d, factors] : llvm::enumerate(lists)) {
      int64_t outer = place.outer;
      for (int factor : factors) {
        if (factor == place.dim)
          result.push_back({(int)d, outer});
        outer *= rule.factors[factor].size;
      }
    }
  return result;
}

SamplePlaces::SamplePlaces(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments()) {
    ArrayRef<int64_t> shape = graph::shapeOf(argument);
    if (!function.getArgAttr(argument.getArgNumber(), graph::names::input) || shape.empty())
      continue;
    size = size ? size : shape[0];
    if (shape[0] == size)
      known[argument] = {SamplePlace()};
  }
  constexpr int rounds = 3; // a constant's uses may say that it has one number for each sample
  for (int round = 0; round < rounds; ++round) {
    const Places before = known;
    places = known;
    combinations.clear();
    whole.clear();
    constants.clear();
    for (Operation &op : function.getBody().front().without_terminator())
      add(op);
    if (known == before)
      break;
  }
}

ArrayRef<SamplePlace> SamplePlaces::of(Value value) const {
  auto it = places.find(value);
  return it == places.end() ? ArrayRef<SamplePlace>() : it->second;
}

bool SamplePlaces::isElsewhere(Value value) const {
  ArrayRef<SamplePlace> all = of(value);
  return llvm::any_of(all, [](SamplePlace place) { return place.dim >= 0; }) &&
         llvm::none_of(all, [](SamplePlace place) { return place.isFirst(); });
}

/// Of what is concatenated along the samples: all parts have as many elements for each sample behind their place.
static std::optional<SamplePlace> afterConcat(graph::ConcatOp concat, const SamplePlaces &places) {
  const int64_t dim = concat.getDim();
  std::optional<int64_t> inner;
  SamplePlace joined{(int)dim, 0};
  for (Value part : concat.getInputs()) {
    auto place = llvm::find_if(places.of(part), [&](SamplePlace place) { return place.dim == dim; });
    if (place == places.of(part).end())
      return std::nullopt;
    const int64_t length = graph::shapeOf(part)[dim], behind = length / (place->outer * places.batch());
    if (length % (place->outer * places.batch()) || (inner && *inner != behind))
      return std::nullopt;
    inner = behind;
    joined.outer += place->outer;
  }
  return joined;
}

void SamplePlaces::add(Operation &op) {
  auto sharded = dyn_cast<dist::ShardingRuleInterface>(op);
  if (!sharded)
    return;
  const bool isConstant = llvm::all_of(op.getOperands(), [&](Value operand) { return constants.contains(operand); });
  if (isConstant)
    constants.insert_range(op.getResults());
  const dist::ShardingRule rule = sharded.getShardingRule();
  bool depends = false;
  SmallVector<SamplePlace> found, combined; // in factors instead of dimensions
  for (auto [i, lists] : llvm::enumerate(rule.operands)) {
    if (!isConstant && constants.contains(op.getOperand(i)))
      continue; // one may stand for several: it follows what it is combined with
    for (SamplePlace place : of(op.getOperand(i))) {
      depends = true;
      auto inside = place.dim >= 0 ? inFactor(rule, lists[place.dim], place.outer) : std::nullopt;
      if (!inside)
        continue;
      if (!llvm::is_contained(found, *inside))
        found.push_back(*inside);
      const auto &factor = rule.factors[inside->dim];
      // A dimension may have only a part of the batch's index (of pairs of samples, say).
      if (graph::shapeOf(op.getOperand(i))[place.dim] % (place.outer * size) != 0)
        continue;
      if (factor.reduction && !factor.indexed) {
        Combination &combination = combinations[&op];
        combination.kind = *factor.reduction;
        combination.places.push_back({i, place});
        if (!llvm::is_contained(combined, *inside))
          combined.push_back(*inside);
        combination.dims = combined.size();
      } else if (factor.whole) {
        whole.insert(&op);
      }
    }
  }
  if (!depends)
    return;
  for (auto [operand, lists] : llvm::zip(op.getOperands(), rule.operands))
    if (!isConstant && constants.contains(operand))
      if (auto all = inDimensions(rule, lists, found); !all.empty()) {
        auto [it, fresh] = known.try_emplace(operand, all);
        if (!fresh && it->second != all)
          it->second.clear();
      }
  for (auto [result, lists] : llvm::zip(op.getResults(), rule.results)) {
    auto all = inDimensions(rule, lists, found);
    if (auto concat = dyn_cast<graph::ConcatOp>(op))
      if (auto joined = afterConcat(concat, *this))
        all.push_back(*joined);
    if (all.empty())
      all.push_back({-1});
    places[result] = std::move(all);
  }
}

const SamplePlaces::Combination *SamplePlaces::combines(Operation *op) const {
  auto it = combinations.find(op);
  return it == combinations.end() ? nullptr : &it->second;
}
