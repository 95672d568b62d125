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
/// Reductions with this number of operations between them do not share a kernel.
constexpr int farApart = 64;
/// The number of partial results: fixed, so that results do not depend on the number of threads.
constexpr int64_t wantedParts = 16, mostParts = 64;

/// The number on GPUs: blocks for several times the multiprocessors of a large one, but not parts of few elements. Of
/// results side by side a block computes some.
constexpr int64_t wantedBlocks = 528, columnsOfBlock = 128, mostPartsForGpu = 1024;
constexpr int64_t leastElements = 1 << 13, leastRows = 32;
/// The number of rows that are reduced apart is less.
constexpr int64_t mostRowsApart = 256;
/// Elements of a load.
constexpr int64_t vector = 4, wideVector = 8;

/// A divisor of n near the wanted number, or 1.
int64_t partsOf(int64_t n, int64_t wanted, int64_t most) {
  for (int64_t parts = wanted; parts <= most; ++parts)
    if (n % parts == 0)
      return parts;
  for (int64_t parts = wanted; parts > 1; --parts)
    if (n % parts == 0)
      return parts;
  return 1;
}

struct Reduction {
  int64_t leading = 0, rows = 1; // the leading reduced dimensions, which are treated as one
  int64_t kept = 1, elements = 1;
  bool columns = false; // all others are kept
};

template <typename OpT> SmallVector<int64_t> dimsOf(OpT op) {
  SmallVector<int64_t> dims(op.getDims());
  llvm::sort(dims);
  return dims;
}

template <typename OpT> Reduction describe(OpT op) {
  SmallVector<int64_t> dims = dimsOf(op);
  ArrayRef<int64_t> shape = shapeOf(op.getX());
  Reduction r;
  while (r.leading < (int64_t)dims.size() && dims[r.leading] == r.leading)
    r.rows *= shape[r.leading++];
  r.kept = tensorType(op.getResult()).getNumElements();
  r.elements = tensorType(op.getX()).getNumElements();
  r.columns = r.kept > 1 && r.rows * r.kept == r.elements;
  return r;
}

int64_t wantedOnGpu(const Reduction &r) {
  if (r.columns) { // a block computes several parts of few columns
    int64_t wanted = r.kept < columnsOfBlock ? wantedBlocks * columnsOfBlock / r.kept : wantedBlocks / llvm::divideCeil(r.kept, columnsOfBlock);
    return std::max(std::min(wanted, r.rows / leastRows), wantedParts);
  }
  return std::clamp(std::min(wantedBlocks / r.kept, r.elements / r.kept / leastElements), wantedParts, mostPartsForGpu);
}

int64_t partsOf(const Reduction &r, bool forGpu) {
  if (!forGpu)
    return partsOf(r.rows, wantedParts, mostParts);
  int64_t wanted = wantedOnGpu(r);
  if (r.elements == r.rows) { // parts that begin where a load of 16 bytes may
    int64_t parts = r.rows % wideVector == 0 ? partsOf(r.rows / wideVector, wanted, 4 * wanted) : 1;
    if (parts >= wanted)
      return parts;
  }
  return partsOf(r.rows, wanted, 4 * wanted);
}

/// The operation before which the parts of a reduction are combined: behind the last reduction near it that has as many
/// elements, does not depend on it and may therefore share its kernel (the sums of a batch norm's gradient).
template <typename OpT> Operation *behindSiblings(OpT op) {
  Operation *last = op, *next = op->getNextNode();
  for (int i = 0; i < farApart && next && !next->hasTrait<OpTrait::IsTerminator>(); ++i, next = next->getNextNode()) {
    auto cost = dyn_cast<CostInterface>(next);
    if (!cost || isCall(cost.getForm()) || llvm::is_contained(next->getOperands(), op.getResult()))
      break;
    bool sibling = cost.getForm() == Form::reduction && shapeOf(next->getOperand(0)) == shapeOf(op.getX());
    if (sibling && next->getAttr("dims") == op.getDimsAttr())
      last = next;
  }
  return last->getNextNode();
}

Value combined(GraphBuilder &b, ReduceSumOp, Value x, Value y) { return b.add(x, y); }
Value combined(GraphBuilder &b, ReduceMaxOp, Value x, Value y) { return b.op<MaxOp>(x, y); }
Value combined(GraphBuilder &b, ReduceMinOp, Value x, Value y) { return b.op<MinOp>(x, y); }

/// Where the number of rows has no suitable divisor, the last rows are reduced apart. Returns the reduction of the
/// others; they are combined before `behind`, which becomes where this begins.
template <typename OpT> OpT trim(OpT op, const Reduction &r, Operation *&behind) {
  int64_t unit = r.elements == r.rows ? wantedBlocks / 2 * wideVector : mostRowsApart;
  bool wide = !r.columns || r.kept % vector == 0 || r.rows % vector == 0;
  if (r.rows % unit == 0 || r.rows < 2 * unit || (2 * partsOf(r, true) >= wantedOnGpu(r) && wide))
    return op;
  OpBuilder builder(op);
  GraphBuilder b(builder, op.getLoc());
  SmallVector<int64_t> shape = {r.rows}, dims = {0};
  llvm::append_range(shape, shapeOf(op.getX()).drop_front(r.leading));
  for (int64_t d : llvm::drop_begin(dimsOf(op), r.leading))
    dims.push_back(d - r.leading + 1);
  int64_t rest = r.rows % unit;
  Value x = b.reshape(op.getX(), shape);
  Value first = b.op<OpT>(b.sliceDim(x, 0, 0, r.rows - rest), dims);
  Value last = b.op<OpT>(b.sliceDim(x, 0, r.rows - rest, rest), dims);
  builder.setInsertionPoint(behind);
  Value both = combined(b, op, first, last);
  behind = both.getDefiningOp();
  op.replaceAllUsesWith(both);
  op.erase();
  return first.getDefiningOp<OpT>();
}

/// Columns that are narrow, or of which no whole number of loads makes a row: several rows are one, whose columns are
/// added up in the end. Returns their reduction.
template <typename OpT> OpT widen(OpT op, const Reduction &r, Operation *&behind) {
  if (!r.columns || (r.kept % vector == 0 && r.kept >= columnsOfBlock / vector))
    return op;
  int64_t together = 1;
  while (r.rows % (2 * together) == 0 && (together * r.kept % vector != 0 || together * r.kept < columnsOfBlock))
    together *= 2;
  if (together == 1)
    return op;
  OpBuilder builder(op);
  GraphBuilder b(builder, op.getLoc());
  auto wide = b.op<OpT>(b.reshape(op.getX(), {r.rows / together, together * r.kept}), ArrayRef<int64_t>{0})
                  .template getDefiningOp<OpT>();
  builder.setInsertionPoint(behind);
  Value rows = b.reshape(wide, {together, r.kept});
  behind = rows.getDefiningOp();
  Value result = b.op<OpT>(rows, ArrayRef<int64_t>{0});
  op.replaceAllUsesWith(b.reshape(result, shapeOf(op.getResult())));
  op.erase();
  return wide;
}

/// Columns that are added up within each of a few leading indices (the points of each image, channels last): in parts, for as
/// many blocks as are wanted.
template <typename OpT> void splitWithin(OpT op) {
  SmallVector<int64_t> dims = dimsOf(op);
  int64_t leading = 1, rows = 1, columns = 1;
  for (auto [d, size] : llvm::enumerate(shapeOf(op.getX())))
    ((int64_t)d < dims.front() ? leading : (int64_t)d <= dims.back() ? rows : columns) *= size;
  int64_t wanted = std::min<int64_t>(wantedBlocks / llvm::divideCeil(leading * columns, columnsOfBlock), rows / leastRows);
  if (dims.back() - dims.front() >= (int64_t)dims.size() || columns == 1 || wanted < 2)
    return;
  int64_t parts = partsOf(rows, wanted, 4 * wanted);
  if (parts == 1)
    return;
  Operation *behind = behindSiblings(op);
  OpBuilder builder(op);
  GraphBuilder b(builder, op.getLoc());
  Value partial = b.op<OpT>(b.reshape(op.getX(), {leading, parts, rows / parts, columns}), ArrayRef<int64_t>{2});
  builder.setInsertionPoint(behind);
  op.replaceAllUsesWith(b.reshape(b.op<OpT>(partial, ArrayRef<int64_t>{1}), shapeOf(op.getResult())));
  op.erase();
}

template <typename OpT> void split(OpT op, bool forGpu) {
  Reduction r = describe(op);
  if (r.elements < smallPoints)
    return;
  if (r.leading == 0) {
    if (forGpu && !op.getDims().empty())
      splitWithin(op);
    return;
  }
  Operation *behind = behindSiblings(op);
  if (forGpu) {
    op = trim(op, r, behind);
    op = widen(op, describe(op), behind);
    r = describe(op);
  }
  ArrayRef<int64_t> shape = shapeOf(op.getX()), dims = op.getDims();
  size_t leading = r.leading;
  int64_t rows = r.rows, parts = partsOf(r, forGpu);
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
  builder.setInsertionPoint(behind);
  op.replaceAllUsesWith(b.op<OpT>(partial, outer));
  op.erase();
}

struct SplitReductionsPass : impl::SplitReductionsPassBase<SplitReductionsPass> {
  using SplitReductionsPassBase::SplitReductionsPassBase;

  void runOnOperation() final {
    SmallVector<Operation *> reductions;
    getOperation().walk([&](Operation *op) { reductions.push_back(op); });
    for (Operation *op : reductions)
      llvm::TypeSwitch<Operation *>(op).Case<ReduceSumOp, ReduceMaxOp, ReduceMinOp>(
          [&](auto reduce) { split(reduce, forGpu); });
  }
};
} // namespace
} // namespace divisi::codegen
