#include "codegen/Kernels/Passes.h"
#include "dialects/Graph/GraphBuilder.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace divisi::graph;

namespace divisi::codegen {
#define GEN_PASS_DEF_SPLITREDUCTIONSPASS
#include "codegen/Kernels/Passes.h.inc"

namespace {

/// Smaller reductions are not split.
constexpr int64_t smallPoints = 1 << 15;
/// The number of partial results: fixed, so that results do not depend on the number of threads.
constexpr int64_t wantedParts = 16, mostParts = 64;

/// A divisor of n near the wanted number, or 1.
int64_t partsOf(int64_t n) {
  for (int64_t parts = wantedParts; parts <= mostParts; ++parts)
    if (n % parts == 0)
      return parts;
  for (int64_t parts = wantedParts; parts > 1; --parts)
    if (n % parts == 0)
      return parts;
  return 1;
}

template <typename OpT> void split(OpT op) {
  ArrayRef<int64_t> shape = shapeOf(op.getX()), dims = op.getDims();
  llvm::SmallBitVector reduced(shape.size());
  for (int64_t d : dims)
    reduced.set(d);
  if (shape.empty() || !reduced.test(0) || tensorType(op.getX()).getNumElements() < smallPoints)
    return;
  // The leading reduced dimensions are treated as one.
  size_t leading = 0;
  int64_t rows = 1;
  while (leading < shape.size() && reduced.test(leading))
    rows *= shape[leading++];
  int64_t parts = partsOf(rows);
  OpBuilder builder(op);
  GraphBuilder b(builder, op.getLoc());
  if (parts == rows && dims.size() > leading) { // few rows: reduce within each row first
    SmallVector<int64_t> within, across = llvm::to_vector(llvm::seq<int64_t>(0, leading));
    for (int64_t d : dims)
      if (d >= (int64_t)leading)
        within.push_back(d);
    op.replaceAllUsesWith(b.op<OpT>(b.op<OpT>(op.getX(), within), across));
    op.erase();
    return;
  }
  if (parts == 1 || parts == rows)
    return;
  SmallVector<int64_t> split = {parts, rows / parts};
  llvm::append_range(split, shape.drop_front(leading));
  SmallVector<int64_t> inner = {1}, outer = {0};
  for (int64_t d : dims)
    if (d >= (int64_t)leading)
      inner.push_back(d - leading + 2);
  Value partial = b.op<OpT>(b.reshape(op.getX(), split), inner);
  op.replaceAllUsesWith(b.op<OpT>(partial, outer));
  op.erase();
}

struct SplitReductionsPass : impl::SplitReductionsPassBase<SplitReductionsPass> {
  using SplitReductionsPassBase::SplitReductionsPassBase;

  void runOnOperation() final {
    SmallVector<Operation *> reductions;
    getOperation().walk([&](Operation *op) { reductions.push_back(op); });
    for (Operation *op : reductions)
      llvm::TypeSwitch<Operation *>(op).Case<ReduceSumOp, ReduceMaxOp, ReduceMinOp>([](auto reduce) { split(reduce); });
  }
};
} // namespace
} // namespace divisi::codegen
