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
/// Of 16 bits each; those of fp32 may become such.
constexpr int64_t elementsOfLoad = 8;

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

/// Of a convolution, or a transposed one, whose first operand and result are images.
template <typename OpT> void convert(OpT conv) {
  OpBuilder builder(conv);
  GraphBuilder b(builder, conv.getLoc());
  Value x = conv->getOperand(0);
  int64_t rank = tensorType(x).getRank();
  auto last = channelsLast(rank);
  SmallVector<int64_t> shape;
  for (int64_t p : last)
    shape.push_back(shapeOf(conv.getResult())[p]);
  auto type = RankedTensorType::get(shape, tensorType(conv.getResult()).getElementType());
  Value y = b.op<OpT>(type, b.transpose(x, last), conv.getFilter(), conv.getStrides(), conv.getDilations(),
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
  if (llvm::is_sorted(dims))
    return b.broadcast(broadcast.getX(), shape, dims);
  if (2 * tensorType(broadcast.getX()).getNumElements() > tensorType(operand).getNumElements())
    return {};
  auto order = llvm::to_vector(llvm::seq<int64_t>(0, dims.size())); // of a scale of each image's channels
  llvm::sort(order, [&](int64_t i, int64_t j) { return dims[i] < dims[j]; });
  llvm::sort(dims);
  return b.broadcast(b.transpose(broadcast.getX(), order), shape, dims);
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

/// A concatenation of transposes: the transpose of a concatenation.
SmallVector<Value> sinkConcat(GraphBuilder &b, ConcatOp concat, TransposeOp transpose) {
  SmallVector<Value> sources;
  for (Value input : concat.getInputs()) {
    auto other = input.getDefiningOp<TransposeOp>();
    if (!other || other.getPermutation() != transpose.getPermutation())
      return {};
    sources.push_back(other.getX());
  }
  ArrayRef<int64_t> permutation = transpose.getPermutation();
  return {b.transpose(b.concat(sources, permutation[concat.getDim()]), permutation)};
}

/// Moves a transpose of an operand behind the operation: op(transpose(x)) becomes transpose(op(x)).
void sink(Operation *op, bool forGpu) {
  TransposeOp transpose;
  for (Value operand : op->getOperands())
    if (auto candidate = operand.getDefiningOp<TransposeOp>(); candidate && !transpose)
      transpose = candidate;
  if (!transpose || isa<TransposeOp>(op))
    return;
  OpBuilder builder(op);
  GraphBuilder b(builder, op->getLoc());
  SmallVector<Value> results;
  auto concat = dyn_cast<ConcatOp>(op);
  if (isElementwise(op))
    results = sinkElementwise(b, op, transpose);
  else if (concat && forGpu)
    results = sinkConcat(b, concat, transpose);
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
      auto convolutions = wanted<ConvOp>(function);
      auto transposed = forGpu ? wanted<ConvInputGradOp>(function) : SmallVector<ConvInputGradOp>();
      if (convolutions.empty() && transposed.empty())
        continue;
      if (forGpu && !fillLoads(convolutions, transposed))
        continue;
      llvm::for_each(convolutions, convert<ConvOp>);
      llvm::for_each(transposed, convert<ConvInputGradOp>);
      for (Operation &op : llvm::make_early_inc_range(function.getBody().front().without_terminator()))
        sink(&op, forGpu);
    }
  }

private:
  /// The convolutions of a kind that may work on channels-last images.
  template <typename OpT> SmallVector<OpT> wanted(func::FuncOp function) const {
    SmallVector<OpT> convolutions;
    function.walk([&](OpT conv) {
      unsigned bits = tensorType(conv.getResult()).getElementTypeBitWidth();
      if (!conv.getChannelsLast() && (!forGpu || bits == 16 || (bits == 32 && narrow)))
        convolutions.push_back(conv);
    });
    return convolutions;
  }

  /// Whether seven eighths of the results' elements, at least, have as many channels as loads of 16 bytes of 16-bit
  /// numbers divide, which tensor cores and kernels need.
  static bool fillLoads(ArrayRef<ConvOp> convolutions, ArrayRef<ConvInputGradOp> transposed) {
    int64_t full = 0, all = 0;
    auto count = [&](Value result) {
      auto type = tensorType(result);
      full += type.getDimSize(1) % elementsOfLoad == 0 ? type.getNumElements() : 0;
      all += type.getNumElements();
    };
    for (ConvOp conv : convolutions)
      count(conv.getResult());
    for (ConvInputGradOp conv : transposed)
      count(conv.getResult());
    return 8 * full >= 7 * all;
  }
};
} // namespace
} // namespace divisi::layout
