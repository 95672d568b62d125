#include "passes/Layout/Passes.h"

#include "dialects/Dist/ShardingRule.h"
#include "dialects/Graph/GraphBuilder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace divisi::graph;
using divisi::dist::ShardingRule;

namespace divisi::layout {
#define GEN_PASS_DEF_BATCHFIRSTPASS
#include "passes/Layout/Passes.h.inc"

namespace {

/// Where the batch runs: dimension `dim` counts [outer, size, inner], row-major, and the batch is the major part of
/// `size`. With outer = 1 it is in front.
struct Place {
  int64_t dim = 0, outer = 1, size = 1, inner = 1;
  bool supposed = false; // by its size alone: no input says so
  bool operator==(const Place &other) const {
    return dim == other.dim && outer == other.outer && size == other.size && inner == other.inner;
  }
};

using Factors = SmallVector<int>;

/// The factors of all dimensions, major to minor.
Factors flattened(const ShardingRule::Dims &dims) {
  Factors all;
  for (const auto &factors : dims)
    llvm::append_range(all, factors);
  return all;
}

int64_t sizeOf(const ShardingRule &rule, ArrayRef<int> factors) {
  int64_t size = 1;
  for (int factor : factors)
    size *= rule.factors[factor].size;
  return size;
}

class Rewriter {
public:
  explicit Rewriter(func::FuncOp function) : function(function) {}

  void run() {
    placeInputs();
    placeRepeated();
    for (Operation &op : llvm::make_early_inc_range(function.getBody().front().without_terminator()))
      visit(&op);
  }

private:
  /// The batch is the first dimension of the first input, and of inputs whose first dimension has its size.
  void placeInputs() {
    for (BlockArgument argument : function.getArguments()) {
      ArrayRef<int64_t> shape = shapeOf(argument);
      if (!function.getArgAttr(argument.getArgNumber(), names::input) || shape.empty())
        continue;
      batch = batch ? batch : shape[0];
      if (shape[0] == batch && batch > 1)
        places[argument] = {.dim = 0, .size = batch};
    }
  }

  /// What does not depend on the inputs is supposed to have the batch where it is repeated as many times, such as learned
  /// queries. Positions of a sequence that is as long as the batch are repeated so, too: what an input says comes first.
  void placeRepeated() {
    llvm::DenseSet<Value> ofInputs;
    for (BlockArgument argument : function.getArguments())
      if (function.getArgAttr(argument.getArgNumber(), names::input))
        ofInputs.insert(argument);
    for (Operation &op : function.getBody().front().without_terminator()) {
      if (llvm::any_of(op.getOperands(), [&](Value operand) { return ofInputs.contains(operand); }))
        ofInputs.insert(op.result_begin(), op.result_end());
      else if (auto broadcast = dyn_cast<BroadcastOp>(op); broadcast && batch > 1)
        if (auto dim = repeatedFor(broadcast, batch))
          places[broadcast.getResult()] = {.dim = *dim, .size = batch, .supposed = true};
    }
  }

  /// The first dimension of this size along which a tensor is repeated.
  static std::optional<int64_t> repeatedFor(BroadcastOp op, int64_t size) {
    ArrayRef<int64_t> shape = shapeOf(op.getResult()), from = shapeOf(op.getX());
    for (auto [dim, of] : llvm::enumerate(shape)) {
      auto at = llvm::find(op.getDims(), (int64_t)dim);
      if (of == size && (at == op.getDims().end() || from[at - op.getDims().begin()] != size))
        return dim;
    }
    return std::nullopt;
  }

  void visit(Operation *op) {
    auto interface = dyn_cast<dist::ShardingRuleInterface>(op);
    if (!interface)
      return;
    SmallVector<std::pair<unsigned, Place>> found;
    for (bool supposed : {false, true})
      for (auto [i, operand] : llvm::enumerate(op->getOperands()))
        if (auto place = places.find(operand); place != places.end() && place->second.supposed == supposed)
          found.emplace_back(i, place->second);
    for (auto [i, at] : found) {
      ShardingRule rule = interface.getShardingRule();
      if (at.outer == 1) {
        if (follow(op, rule, i, at))
          return;
        continue;
      }
      if (!ordered.contains(op->getOperand(i)))
        continue;
      if (auto reshape = dyn_cast<ReshapeOp>(op); reshape && rule.operands[0][at.dim].size() > 1)
        return split(reshape, rule, at);
      return reorder(op, rule, i, at);
    }
  }

  static bool isFree(const ShardingRule::Factor &factor) {
    return !factor.whole && !factor.indexed && !factor.windowed && !factor.skewed;
  }

  /// Finds the batch, which is in front in an operand, in the results. Whether there is one.
  bool follow(Operation *op, const ShardingRule &rule, unsigned operand, Place at) {
    const auto &from = rule.operands[operand][at.dim];
    if (from.empty() || !isFree(rule.factors[from[0]]) || rule.factors[from[0]].size % at.size)
      return false;
    int factor = from[0];
    bool any = false;
    for (auto [result, dims] : llvm::zip(op->getResults(), rule.results))
      for (auto [dim, factors] : llvm::enumerate(dims)) {
        auto found = llvm::find(factors, factor);
        if (found == factors.end())
          continue;
        size_t before = found - factors.begin();
        Place place = {(int64_t)dim, sizeOf(rule, ArrayRef<int>(factors).take_front(before)), at.size,
                       sizeOf(rule, ArrayRef<int>(factors).drop_front(before + 1)), at.supposed};
        if (place.outer > 1)
          place.size = rule.factors[factor].size;
        if (auto reshape = dyn_cast<ReshapeOp>(op); reshape && place.outer > 1 && !reshape.getBarrier()) {
          merge(reshape, rule, factor, place);
          return true;
        }
        places[result] = place;
        any = true;
        break;
      }
    return any;
  }

  /// Replaces a reshape that merges the batch behind another dimension by one that has it in front.
  void merge(ReshapeOp op, const ShardingRule &rule, int factor, Place place) {
    Factors source = flattened(rule.operands[0]), target;
    for (auto [dim, factors] : llvm::enumerate(rule.results[0])) {
      if ((int64_t)dim == place.dim)
        target.push_back(factor);
      for (int f : factors)
        if (f != factor)
          target.push_back(f);
    }
    OpBuilder builder(op);
    GraphBuilder b(builder, op.getLoc());
    Value front = moved(b, op.getX(), rule, source, target, shapeOf(op.getResult()));
    replace(b, op.getResult(), front, place);
    op.erase();
  }

  /// A reshape of a tensor, whose elements are counted by the factors `source`, with these in another order.
  static Value moved(GraphBuilder &b, Value x, const ShardingRule &rule, ArrayRef<int> source, ArrayRef<int> target,
                     ArrayRef<int64_t> shape) {
    SmallVector<int64_t> sizes, permutation;
    for (int factor : source)
      sizes.push_back(rule.factors[factor].size);
    for (int factor : target)
      permutation.push_back(llvm::find(source, factor) - source.begin());
    return b.reshape(b.transpose(b.reshape(x, sizes), permutation), shape);
  }

  /// Replaces `value` by the restored order of `front`, in which the batch is in front of what `place` has before it.
  void replace(GraphBuilder &b, Value value, Value front, Place place) {
    Value restored = exchanged(b, front, place.dim, place.size, place.outer, place.inner);
    value.replaceAllUsesWith(restored);
    ordered[restored] = front;
    places[restored] = place;
  }

  /// Exchanges the two major parts of a dimension that counts [first, second, rest].
  static Value exchanged(GraphBuilder &b, Value x, int64_t dim, int64_t first, int64_t second, int64_t rest) {
    SmallVector<int64_t> shape(shapeOf(x)), sizes(shape), permutation;
    sizes[dim] = first;
    sizes.insert(sizes.begin() + dim + 1, second);
    if (rest > 1)
      sizes.insert(sizes.begin() + dim + 2, rest);
    for (int64_t d = 0, rank = sizes.size(); d < rank; ++d)
      permutation.push_back(d == dim ? dim + 1 : d == dim + 1 ? dim : d);
    return b.reshape(b.transpose(b.reshape(x, sizes), permutation), shape);
  }

  /// Splits the dimension with the batch in front, and restores the order of the parts.
  void split(ReshapeOp op, const ShardingRule &rule, Place at) {
    const auto &factors = rule.operands[0][at.dim];
    size_t first = 0, last = 0; // the factors of the batch
    while (first < factors.size() && sizeOf(rule, ArrayRef<int>(factors).take_front(first)) < at.outer)
      ++first;
    last = first;
    auto batch = [&] { return ArrayRef<int>(factors).slice(first, last - first); };
    while (last < factors.size() && sizeOf(rule, batch()) < at.size)
      ++last;
    if (sizeOf(rule, ArrayRef<int>(factors).take_front(first)) != at.outer || sizeOf(rule, batch()) != at.size)
      return;
    auto isOuter = [&](int f) { return llvm::is_contained(ArrayRef<int>(factors).take_front(first), f); };
    for (const auto &dim : rule.results[0])
      if (llvm::any_of(dim, isOuter) && llvm::any_of(dim, [&](int f) { return llvm::is_contained(batch(), f); }))
        return;
    Factors source;
    for (auto [dim, all] : llvm::enumerate(rule.operands[0])) {
      if ((int64_t)dim == at.dim) {
        llvm::append_range(source, batch());
        llvm::append_range(source, ArrayRef<int>(factors).take_front(first));
        llvm::append_range(source, ArrayRef<int>(factors).drop_front(last));
      } else {
        llvm::append_range(source, all);
      }
    }
    OpBuilder builder(op);
    GraphBuilder b(builder, op.getLoc());
    int lead = batch()[0];
    Value result = moved(b, ordered.lookup(op.getX()), rule, source, flattened(rule.results[0]), shapeOf(op.getResult()));
    op.getResult().replaceAllUsesWith(result);
    op.erase();
    for (auto [dim, all] : llvm::enumerate(rule.results[0]))
      if (!all.empty() && all[0] == lead)
        places[result] = {.dim = (int64_t)dim, .size = rule.factors[lead].size, .supposed = at.supposed};
  }

  /// Computes an operation that treats all indices of the dimension alike with the batch in front.
  void reorder(Operation *op, const ShardingRule &rule, unsigned operand, Place at) {
    const auto &factors = rule.operands[operand][at.dim];
    if (factors.size() != 1 || !isFree(rule.factors[factors[0]]))
      return;
    int factor = factors[0];
    auto dimOf = [&](const ShardingRule::Dims &dims) -> std::optional<int64_t> { // -1: it lacks the factor
      int64_t found = -1;
      for (auto [dim, all] : llvm::enumerate(dims))
        if (llvm::is_contained(all, factor)) {
          if (found >= 0 || all.size() > 1)
            return std::nullopt;
          found = dim;
        }
      return found;
    };
    SmallVector<int64_t> operandDims, resultDims;
    for (const auto &dims : rule.operands)
      if (auto dim = dimOf(dims))
        operandDims.push_back(*dim);
      else
        return;
    for (const auto &dims : rule.results)
      if (auto dim = dimOf(dims))
        resultDims.push_back(*dim);
      else
        return;
    OpBuilder builder(op);
    GraphBuilder b(builder, op->getLoc());
    IRMapping mapping;
    for (auto [value, dim] : llvm::zip(op->getOperands(), operandDims))
      if (dim >= 0)
        mapping.map(value, inFront(b, value, {dim, at.outer, at.size, at.inner}));
    Operation *copy = builder.clone(*op, mapping);
    builder.setInsertionPointAfter(copy);
    GraphBuilder after(builder, op->getLoc());
    for (auto [value, fresh, dim] : llvm::zip(op->getResults(), copy->getResults(), resultDims))
      if (dim >= 0)
        replace(after, value, fresh, {dim, at.outer, at.size, at.inner, at.supposed});
      else
        value.replaceAllUsesWith(fresh);
    op->erase();
  }

  /// An operand with the batch in front.
  Value inFront(GraphBuilder &b, Value value, Place place) {
    if (Value front = ordered.lookup(value); front && places.lookup(value) == place)
      return front;
    if (auto broadcast = value.getDefiningOp<BroadcastOp>()) // the same along the dimension
      if (!llvm::is_contained(broadcast.getDims(), place.dim))
        return value;
    if (splatOf(value))
      return value;
    return exchanged(b, value, place.dim, place.outer, place.size, place.inner);
  }

  func::FuncOp function;
  int64_t batch = 0;
  llvm::DenseMap<Value, Place> places;
  llvm::DenseMap<Value, Value> ordered; // by a value that was merged: the same with the batch in front
};

struct BatchFirstPass : impl::BatchFirstPassBase<BatchFirstPass> {
  void runOnOperation() final {
    for (auto function : getOperation().getOps<func::FuncOp>())
      Rewriter(function).run();
  }
};
} // namespace
} // namespace divisi::layout
