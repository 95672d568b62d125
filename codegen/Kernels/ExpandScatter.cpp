#include "codegen/Kernels/Passes.h"
#include "dialects/Graph/GraphBuilder.h"

using namespace mlir;
using namespace divisi::graph;

namespace divisi::codegen {
#define GEN_PASS_DEF_EXPANDSCATTERPASS
#include "codegen/Kernels/Passes.h.inc"

namespace {

/// The largest number of indices with which each element is compared.
constexpr int64_t mostCompared = 8;

Value combined(GraphBuilder &b, Combine combine, Value old, Value update) {
  switch (combine) {
  case Combine::assign:
    return update;
  case Combine::add:
    return b.add(old, update);
  case Combine::mul:
    return b.mul(old, update);
  case Combine::max:
    return b.op<MaxOp>(old, update);
  case Combine::min:
    return b.op<MinOp>(old, update);
  }
  llvm_unreachable("unknown combine");
}

/// Compares each element's place with the indices, in their order.
void compareAll(ScatterElementsOp op) {
  OpBuilder builder(op);
  GraphBuilder b(builder, op.getLoc());
  ArrayRef<int64_t> shape = shapeOf(op.getX());
  int64_t dim = op.getDim();
  Value result = op.getX(), place = b.iota(shape, dim);
  for (int64_t k = 0; k < shapeOf(op.getIndices())[dim]; ++k) {
    auto along = [&](Value x) { return b.broadcastTo(b.sliceDim(x, dim, k, 1), shape); };
    Value here = b.compare(Predicate::eq, along(op.getIndices()), place);
    result = b.select(here, combined(b, op.getCombine(), result, along(op.getUpdates())), result);
  }
  op.replaceAllUsesWith(result);
  op.erase();
}

/// Adds the slices to the rows of a table.
void addRows(ScatterNdOp op) {
  OpBuilder builder(op);
  GraphBuilder b(builder, op.getLoc());
  ArrayRef<int64_t> shape = shapeOf(op.getX()), of = shapeOf(op.getIndices());
  int64_t depth = of.back(), rows = llvm::product_of(shape.take_front(depth)), count = llvm::product_of(of) / depth;
  Value index, valid, indices = b.reshape(op.getIndices(), {count, depth});
  for (int64_t k = 0; k < depth; ++k) {
    Value part = b.reshape(b.sliceDim(indices, 1, k, 1), {count});
    Value inside = b.isWithin(part, 0, shape[k]);
    index = index ? b.add(b.scale(index, shape[k]), part) : part;
    valid = valid ? b.op<AndOp>(valid, inside) : inside;
  }
  index = b.select(valid, index, b.splatLike(index, -1));
  SmallVector<int64_t> table = {rows}, updates = {count};
  llvm::append_range(table, shape.drop_front(depth));
  llvm::append_range(updates, shape.drop_front(depth));
  Value added = b.reshape(op.getUpdates(), updates);
  Value sum = b.op<ScatterAddOp>(b.reshape(op.getX(), table), index, added, 0);
  op.replaceAllUsesWith(b.reshape(sum, shape));
  op.erase();
}

struct ExpandScatterPass : impl::ExpandScatterPassBase<ExpandScatterPass> {
  using ExpandScatterPassBase::ExpandScatterPassBase;

  void runOnOperation() final {
    SmallVector<Operation *> operations;
    getOperation().walk([&](Operation *op) { operations.push_back(op); });
    for (Operation *op : operations) {
      if (llvm::any_of(op->getOperandTypes(),
                       [](Type type) { return cast<RankedTensorType>(type).getNumElements() == 0; }))
        continue;
      if (auto elements = dyn_cast<ScatterElementsOp>(op))
        visit(elements);
      else if (auto nd = dyn_cast<ScatterNdOp>(op))
        if (nd.getBatchDims() == 0 && nd.getCombine() == Combine::add)
          addRows(nd);
    }
  }

private:
  static void visit(ScatterElementsOp op) {
    ArrayRef<int64_t> of = shapeOf(op.getIndices()), shape = shapeOf(op.getX());
    int64_t dim = op.getDim();
    if (of[dim] <= mostCompared && of.take_front(dim) == shape.take_front(dim) &&
        of.drop_front(dim + 1) == shape.drop_front(dim + 1))
      return compareAll(op);
    if (shape.size() != 1 || op.getCombine() != Combine::add)
      return;
    OpBuilder builder(op);
    GraphBuilder b(builder, op.getLoc());
    op.replaceAllUsesWith(b.op<ScatterAddOp>(op.getX(), op.getIndices(), op.getUpdates(), 0));
    op.erase();
  }
};
} // namespace
} // namespace divisi::codegen
