#include "passes/Layout/Layouts.h"
#include "passes/Layout/Passes.h"

#include "llvm/ADT/Sequence.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace divisi::graph;

namespace divisi::layout {
#define GEN_PASS_DEF_CHANNELSLASTPASS
#include "passes/Layout/Passes.h.inc"

namespace {

/// The permutation from [batch, s.., channels] to [batch, channels, s..]: dimension i of the result is dimension
/// order[i] of the source.
SmallVector<int64_t> channelsFirst(int64_t rank) {
  SmallVector<int64_t> order = {0, rank - 1};
  llvm::append_range(order, llvm::seq<int64_t>(1, rank - 1));
  return order;
}
SmallVector<int64_t> channelsLast(int64_t rank) {
  SmallVector<int64_t> order = {0};
  llvm::append_range(order, llvm::seq<int64_t>(2, rank));
  order.push_back(1);
  return order;
}

void convert(ConvOp conv) {
  OpBuilder builder(conv);
  GraphBuilder b(builder, conv.getLoc());
  int64_t rank = tensorType(conv.getX()).getRank();
  auto last = channelsLast(rank);
  SmallVector<int64_t> shape;
  for (int64_t p : last)
    shape.push_back(shapeOf(conv.getResult())[p]);
  auto type = RankedTensorType::get(shape, tensorType(conv.getResult()).getElementType());
  Value y = b.op<ConvOp>(type, b.transpose(conv.getX(), last), conv.getFilter(), conv.getStrides(), conv.getDilations(),
                         conv.getPadsLow(), conv.getPadsHigh(), conv.getGroups(), true);
  conv.replaceAllUsesWith(b.transpose(y, channelsFirst(rank)));
  conv.erase();
}

/// An elementwise operand in the layout of a transpose's source: the source of an equal transpose, a constant, or a
/// broadcast value. Null: the operand is none of these.
Value onSource(GraphBuilder &b, Value operand, ArrayRef<int64_t> permutation, ArrayRef<int64_t> shape) {
  if (auto transpose = operand.getDefiningOp<TransposeOp>())
    return transpose.getPermutation() == permutation ? transpose.getX() : Value();
  SplatElementsAttr splat;
  if (matchPattern(operand, m_Constant(&splat)))
    return b.constant(splat.resizeSplat(RankedTensorType::get(shape, splat.getElementType())));
  auto broadcast = operand.getDefiningOp<BroadcastOp>();
  if (!broadcast)
    return {};
  SmallVector<int64_t> dims;
  for (int64_t d : broadcast.getDims())
    dims.push_back(permutation[d]);
  return llvm::is_sorted(dims) ? b.broadcast(broadcast.getX(), shape, dims) : Value();
}

SmallVector<Value> sinkElementwise(GraphBuilder &b, Operation *op, TransposeOp transpose) {
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    operands.push_back(onSource(b, operand, transpose.getPermutation(), shapeOf(transpose.getX())));
    if (!operands.back())
      return {};
  }
  auto type = RankedTensorType::get(shapeOf(transpose.getX()), tensorType(op->getResult(0)).getElementType());
  OperationState state(op->getLoc(), op->getName().getStringRef(), operands, type, op->getAttrs());
  return {b.transpose(b.getBuilder().create(state)->getResult(0), transpose.getPermutation())};
}

/// Moves a transpose of an operand behind the operation: op(transpose(x)) becomes transpose(op(x)).
void sink(Operation *op) {
  TransposeOp transpose;
  for (Value operand : op->getOperands())
    if (auto candidate = operand.getDefiningOp<TransposeOp>(); candidate && !transpose)
      transpose = candidate;
  if (!transpose || isa<TransposeOp>(op))
    return;
  OpBuilder builder(op);
  GraphBuilder b(builder, op->getLoc());
  SmallVector<Value> results;
  if (isElementwise(op))
    results = sinkElementwise(b, op, transpose);
  else if (auto movable = dyn_cast<LayoutInterface>(op); movable && op->getOperand(0) == transpose.getResult())
    results = movable.buildOnSource(b, transpose.getX(), transpose.getPermutation());
  if (results.empty())
    return;
  op->replaceAllUsesWith(results);
  op->erase();
}

struct ChannelsLastPass : impl::ChannelsLastPassBase<ChannelsLastPass> {
  using ChannelsLastPassBase::ChannelsLastPassBase;

  void runOnOperation() final {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      SmallVector<ConvOp> convolutions;
      function.walk([&](ConvOp conv) {
        if (!conv.getChannelsLast())
          convolutions.push_back(conv);
      });
      if (convolutions.empty())
        continue;
      llvm::for_each(convolutions, convert);
      for (Operation &op : llvm::make_early_inc_range(function.getBody().front().without_terminator()))
        sink(&op);
    }
  }
};
} // namespace
} // namespace divisi::layout
