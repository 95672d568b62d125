#include "dialects/Graph/GraphBuilder.h"
#include "passes/Planning/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::graph;

namespace divisi::planning {
#define GEN_PASS_DEF_SPLITPROJECTIONSPASS
#include "passes/Planning/Passes.h.inc"

namespace {

/// A slice of a value: [start, start + size) of a dimension.
struct Part {
  Value value;
  int64_t dim, start, size;
};

/// The only factor of a dimension, if every dimension that it runs through can be sliced along it; else -1.
int cuttableFactor(Operation *op, const dist::ShardingRule &rule, int64_t dim) {
  const auto &list = rule.results[0][dim];
  if (op->getNumResults() != 1 || list.size() != 1 || rule.factors[list[0]].whole || rule.factors[list[0]].indexed ||
      rule.factors[list[0]].windowed)
    return -1;
  int factor = list[0];
  auto pure = [&](const dist::ShardingRule::Dims &dims) {
    return llvm::all_of(dims, [&](const auto &d) { return !llvm::is_contained(d, factor) || d.size() == 1; });
  };
  return llvm::all_of(rule.operands, pure) && llvm::all_of(rule.results, pure) ? factor : -1;
}

/// Moves equal slices of a fused projection up to its parameters.
class Projection {
public:
  Projection(func::FuncOp function, Value fused, int64_t dim, int64_t size)
      : function(function), fused(fused), dim(dim), size(size) {}

  /// Whether all slices can be computed from slices of parameters; records these parameters.
  bool canSplit() { return reaches(fused, dim) && !parameters.empty(); }

  void split(ArrayRef<SliceOp> slices) {
    for (auto [parameter, d] : parameters)
      view(cast<BlockArgument>(parameter), d);
    for (SliceOp slice : slices) {
      OpBuilder builder(slice);
      slice.replaceAllUsesWith(part({fused, dim, slice.getStarts()[dim], size}, builder));
      slice.erase();
    }
  }

private:
  bool reaches(Value value, int64_t d) {
    auto [it, fresh] = reached.try_emplace({value, d}, false);
    return fresh ? (reached[{value, d}] = findParameters(value, d)) : it->second;
  }

  bool findParameters(Value value, int64_t d) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      if (!function.getArgAttr(argument.getArgNumber(), graph::names::parameter) || shapeOf(value)[d] % size)
        return false;
      auto [it, fresh] = parameters.try_emplace(value, d);
      return it->second == d && !function.getArgAttr(argument.getArgNumber(), graph::names::modelShape);
    }
    Operation *op = value.getDefiningOp();
    auto rule = cast<dist::ShardingRuleInterface>(op).getShardingRule();
    auto constant = dyn_cast<ConstantOp>(op);
    // Whether a value depends on its place, and not on operands alone.
    const bool isPositional = isa<RandomnessInterface>(op) || (op->getNumOperands() == 0 && !constant);
    if (isPositional || (constant && !constant.getValue().isSplat()))
      return false;
    int factor = cuttableFactor(op, rule, d);
    if (factor < 0)
      return false;
    for (auto [operand, dims] : llvm::zip(op->getOperands(), rule.operands))
      for (auto [i, list] : llvm::enumerate(dims))
        if (llvm::is_contained(list, factor) && !reaches(operand, i))
          return false;
    return true;
  }

  /// Changes the parameter's type to [.., parts, size, ..]; the model's shape becomes a reshape of it.
  void view(BlockArgument parameter, int64_t d) {
    SmallVector<int64_t> old(shapeOf(parameter)), shape(old);
    shape[d] = old[d] / size;
    shape.insert(shape.begin() + d + 1, size);
    OpBuilder builder = OpBuilder::atBlockBegin(&function.getBody().front());
    GraphBuilder b(builder, parameter.getLoc());
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : parameter.getUses())
      uses.push_back(&use);
    function.setArgAttr(parameter.getArgNumber(), graph::names::modelShape, builder.getDenseI64ArrayAttr(old));
    parameter.setType(RankedTensorType::get(shape, tensorType(parameter).getElementType()));
    Value whole = b.reshape(parameter, old);
    for (OpOperand *use : uses)
      use->set(whole);
    viewOf[whole] = {parameter, d};
  }

  /// Computes a slice of a value. Slices are requested in program order, so an earlier one dominates later ones.
  Value part(Part p, OpBuilder &builder) {
    auto key = std::make_tuple(p.value, p.dim, p.start);
    if (Value known = parts.lookup(key))
      return known;
    return parts[key] = compute(p, builder);
  }

  Value compute(Part p, OpBuilder &builder) {
    GraphBuilder b(builder, p.value.getLoc());
    if (auto it = viewOf.find(p.value); it != viewOf.end()) {
      auto [parameter, d] = it->second;
      SmallVector<int64_t> shape(shapeOf(p.value));
      shape[d] = p.size;
      return b.reshape(b.sliceDim(parameter, d, p.start / size, 1), shape);
    }
    Operation *op = p.value.getDefiningOp();
    auto rule = cast<dist::ShardingRuleInterface>(op).getShardingRule();
    int factor = rule.results[0][p.dim][0];
    IRMapping mapping;
    for (auto [operand, dims] : llvm::zip(op->getOperands(), rule.operands))
      for (auto [i, list] : llvm::enumerate(dims))
        if (llvm::is_contained(list, factor))
          mapping.map(operand, part({operand, (int64_t)i, p.start, p.size}, builder));
    Operation *copy = builder.clone(*op, mapping);
    SmallVector<int64_t> shape(shapeOf(p.value));
    shape[p.dim] = p.size;
    cast<dist::ShardingRuleInterface>(copy).growResult(
        0, RankedTensorType::get(shape, tensorType(p.value).getElementType()));
    return copy->getResult(0);
  }

  func::FuncOp function;
  Value fused;
  int64_t dim, size;
  llvm::MapVector<Value, int64_t> parameters;                       // and the dimension that is sliced
  llvm::DenseMap<std::pair<Value, int64_t>, bool> reached;          // by value and dimension
  llvm::DenseMap<Value, std::pair<Value, int64_t>> viewOf;          // the model's shape of a reshaped parameter
  llvm::DenseMap<std::tuple<Value, int64_t, int64_t>, Value> parts; // by value, dimension and start
};

struct SplitProjectionsPass : impl::SplitProjectionsPassBase<SplitProjectionsPass> {
  void runOnOperation() final {
    auto loss = getOperation().lookupSymbol<func::FuncOp>("loss");
    if (!loss)
      return;
    SmallVector<Value> candidates;
    for (Operation &op : loss.getBody().front())
      if (auto slice = dyn_cast<SliceOp>(op); slice && slice.getX().getDefiningOp())
        if (!llvm::is_contained(candidates, slice.getX()))
          candidates.push_back(slice.getX());
    llvm::DenseSet<Value> erased; // slices of slices
    for (Value fused : candidates)
      if (!erased.contains(fused))
        trySplit(loss, fused, erased);
    auto types = loss.getBody().front().getTerminator()->getOperandTypes();
    loss.setFunctionType(FunctionType::get(&getContext(), loss.getBody().getArgumentTypes(), types));
  }

private:
  /// All users must be slices of one size along one dimension, at multiples of the size.
  static void trySplit(func::FuncOp loss, Value fused, llvm::DenseSet<Value> &erased) {
    SmallVector<SliceOp> slices;
    int64_t dim = -1, size = 0;
    for (Operation *user : fused.getUsers()) {
      auto slice = dyn_cast<SliceOp>(user);
      if (!slice)
        return;
      for (int64_t d = 0; d < (int64_t)shapeOf(fused).size(); ++d) {
        int64_t here = shapeOf(slice.getResult())[d];
        if (slice.getSteps()[d] != 1)
          return;
        if (here == shapeOf(fused)[d])
          continue;
        if ((dim >= 0 && dim != d) || (size && size != here) || here < 2 || slice.getStarts()[d] % here)
          return;
        dim = d, size = here;
      }
      slices.push_back(slice);
    }
    if (dim < 0 || shapeOf(fused)[dim] % size)
      return;
    llvm::sort(slices, [](SliceOp a, SliceOp b) { return a->isBeforeInBlock(b); });
    Projection projection(loss, fused, dim, size);
    if (!projection.canSplit())
      return;
    for (SliceOp slice : slices)
      erased.insert(slice.getResult());
    projection.split(slices);
  }
};
} // namespace
} // namespace divisi::planning
