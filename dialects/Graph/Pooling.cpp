#include "dialects/Graph/GraphBuilder.h"

#include "mlir/IR/TypeUtilities.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::graph;
using Values = SmallVector<Value>;
using B = GraphBuilder;

#define GET_OP_CLASSES
#include "dialects/Graph/Pooling.cpp.inc"

void GraphDialect::addPooling() {
  addOperations<
#define GET_OP_LIST
#include "dialects/Graph/Pooling.cpp.inc"
      >();
}

/// `big` is the pooled tensor, `small` has one element per window. A window may reach beyond the end of `big`.
template <typename OpT> static LogicalResult verifyPool(OpT op, Value big, Value small) {
  ArrayRef<int64_t> from = shapeOf(big), to = shapeOf(small);
  if (from.size() != to.size())
    return op.emitOpError("constraint 1: expected tensors of one rank");
  for (auto attr : {op.getWindow(), op.getStrides(), op.getDilations(), op.getPadsLow()})
    if (attr.size() != from.size())
      return op.emitOpError("constraint 2: expected attributes with ") << from.size() << " entries";
  for (size_t d = 0; d < from.size(); ++d) {
    if (op.getWindow()[d] < 1 || op.getStrides()[d] < 1 || op.getDilations()[d] < 1 || op.getPadsLow()[d] < 0)
      return op.emitOpError("constraint 3: window, strides and dilations must be positive and pads not negative");
    for (int64_t number : {op.getWindow()[d], op.getStrides()[d], op.getDilations()[d], op.getPadsLow()[d]})
      if (number > int64_t(1) << 30)
        return op.emitOpError("constraint 3: window, strides, dilations and pads must not be larger than 2^30, got ") << number;
    int64_t last; // window's begin
    if (to[d] < 1 || llvm::MulOverflow(to[d] - 1, op.getStrides()[d], last) || last - op.getPadsLow()[d] >= from[d])
      return op.emitOpError("constraint 4: the last window lies outside of dimension ") << d;
  }
  return success();
}

/// Dimensions without pooling are factors. So are dimensions that adjacent windows fill exactly: a shard of `small`
/// then corresponds to a shard of `big` that is `stride` times as long.
template <typename OpT> static dist::ShardingRule poolRule(OpT op, Value big, Value small, dist::Linear linear) {
  dist::ShardingRule rule;
  rule.linear = linear;
  dist::ShardingRule::Dims dims;
  for (auto [d, size] : llvm::enumerate(shapeOf(small))) {
    dims.emplace_back();
    int64_t stride = op.getStrides()[d];
    bool side = op.getWindow()[d] == stride && op.getDilations()[d] == 1 && op.getPadsLow()[d] == 0;
    if (!side || shapeOf(big)[d] != stride * size)
      continue;
    dims[d].push_back(rule.addFactor("d" + std::to_string(d), size));
    rule.factors.back().windowed = stride != 1;
  }
  rule.operands.assign(op->getNumOperands(), dims);
  rule.results.assign(op->getNumResults(), dims);
  return rule;
}

LogicalResult MaxPoolOp::verify() {
  if (shapeOf(getResult()) != shapeOf(getPosition()))
    return emitOpError("constraint 5: expected results of one shape");
  return verifyPool(*this, getX(), getResult());
}
LogicalResult MaxPoolGradOp::verify() {
  if (shapeOf(getGradient()) != shapeOf(getPosition()))
    return emitOpError("constraint 5: expected operands of one shape");
  return verifyPool(*this, getResult(), getGradient());
}
LogicalResult SumPoolOp::verify() { return verifyPool(*this, getX(), getResult()); }
LogicalResult SumPoolGradOp::verify() { return verifyPool(*this, getResult(), getGradient()); }

/// Each offset within a window or, where windows have no gaps, every stride-th one.
template <typename OpT> static SmallVector<int64_t> windowsOfElement(OpT op) {
  SmallVector<int64_t> counts;
  for (auto [window, stride, dilation] : llvm::zip(op.getWindow(), op.getStrides(), op.getDilations()))
    counts.push_back(dilation == 1 ? llvm::divideCeil(window, stride) : window);
  return counts;
}
SmallVector<int64_t> MaxPoolOp::getVisited() { return llvm::to_vector(getWindow()); }
SmallVector<int64_t> SumPoolOp::getVisited() { return llvm::to_vector(getWindow()); }
SmallVector<int64_t> MaxPoolGradOp::getVisited() { return windowsOfElement(*this); }
SmallVector<int64_t> SumPoolGradOp::getVisited() { return windowsOfElement(*this); }

/// One operation for each element or window that is visited.
template <typename OpT> static int64_t flopsOfPool(OpT op) {
  constexpr int64_t most = int64_t(1) << 60; // (of absurd windows)
  int64_t flops = 1;
  SmallVector<int64_t> sizes = op.getVisited();
  llvm::append_range(sizes, shapeOf(op.getResult()));
  for (int64_t size : sizes)
    if (llvm::MulOverflow(flops, size, flops) || flops > most)
      return most;
  return flops;
}
int64_t MaxPoolOp::getFlops() { return flopsOfPool(*this); }
int64_t MaxPoolGradOp::getFlops() { return flopsOfPool(*this); }
int64_t SumPoolOp::getFlops() { return flopsOfPool(*this); }
int64_t SumPoolGradOp::getFlops() { return flopsOfPool(*this); }

dist::ShardingRule MaxPoolOp::getShardingRule() { return poolRule(*this, getX(), getResult(), dist::Linear::no); }
dist::ShardingRule MaxPoolGradOp::getShardingRule() {
  return poolRule(*this, getResult(), getGradient(), dist::Linear::no);
}
dist::ShardingRule SumPoolOp::getShardingRule() { return poolRule(*this, getX(), getResult(), dist::Linear::all); }
dist::ShardingRule SumPoolGradOp::getShardingRule() {
  return poolRule(*this, getResult(), getGradient(), dist::Linear::all);
}

Values MaxPoolOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  if (!gradients[0])
    return {Value()};
  return {b.op<MaxPoolGradOp>(getX().getType(), gradients[0], getPosition(), getWindow(), getStrides(), getDilations(),
                              getPadsLow())};
}
/// The transposed map: the gradient of each window is that of its first maximum. Second derivatives of pooling are not
/// needed for training.
Values MaxPoolGradOp::buildGradient(B &, ArrayRef<Value>) { return {Value(), Value()}; }

Values SumPoolOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  if (!gradients[0])
    return {Value()};
  return {b.op<SumPoolGradOp>(getX().getType(), gradients[0], getWindow(), getStrides(), getDilations(), getPadsLow())};
}
Values SumPoolGradOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  if (!gradients[0])
    return {Value()};
  return {
      b.op<SumPoolOp>(getGradient().getType(), gradients[0], getWindow(), getStrides(), getDilations(), getPadsLow())};
}
