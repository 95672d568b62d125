#include "codegen/Kernels/Passes.h"
#include "dialects/Graph/GraphBuilder.h"

#include <limits>

using namespace mlir;
using namespace divisi::graph;

namespace divisi::codegen {
#define GEN_PASS_DEF_EXPANDTOPKPASS
#include "codegen/Kernels/Passes.h.inc"

namespace {

/// The largest number of elements: each is compared with every other, and beyond this number sorting on the host is
/// faster.
constexpr int64_t mostSortedByComparing = 512;

/// The neutral element of a maximum.
Value leastLike(GraphBuilder &b, RankedTensorType type) {
  Type element = type.getElementType();
  if (isa<FloatType>(element))
    return b.splat(type, -std::numeric_limits<double>::infinity());
  unsigned width = element.getIntOrFloatBitWidth();
  bool isUnsigned = element.isUnsignedInteger() || width == 1;
  APInt least = isUnsigned ? APInt::getMinValue(width) : APInt::getSignedMinValue(width);
  return b.constant(DenseElementsAttr::get(type, least));
}

/// Computes each element's rank; the k-th result is the element with rank k. NaN counts as the largest number, and
/// equal elements keep their order.
void expand(TopKOp op) {
  OpBuilder builder(op);
  GraphBuilder b(builder, op.getLoc());
  auto type = tensorType(op.getX());
  int64_t dim = op.getDim(), rank = type.getRank(), k = op.getK();
  // Shapes [.., n, m, ..]: n for an element, m for another element or a rank.
  auto shapeWith = [&](int64_t m) {
    SmallVector<int64_t> shape(type.getShape());
    shape.insert(shape.begin() + dim + 1, m);
    return shape;
  };
  auto spread = [&](Value x, int64_t m, int64_t along) {
    SmallVector<int64_t> dims;
    for (int64_t d = 0; d < rank; ++d)
      dims.push_back(d < dim ? d : d > dim ? d + 1 : along);
    return b.broadcast(x, shapeWith(m), dims);
  };
  int64_t n = type.getDimSize(dim);
  SmallVector<int64_t> pairs = shapeWith(n), places = shapeWith(k);
  Value mine = spread(op.getX(), n, dim), other = spread(op.getX(), n, dim + 1);
  Value before = b.compare(op.getSmallest() ? Predicate::lt : Predicate::gt, other, mine);
  Value equal = b.compare(Predicate::eq, other, mine);
  if (isa<FloatType>(type.getElementType())) {
    Value mineIs = b.compare(Predicate::ne, mine, mine), otherIs = b.compare(Predicate::ne, other, other); // is NaN
    auto andNot = [&](Value x, Value y) { return b.op<AndOp>(x, b.op<NotOp>(y)); };
    before = b.op<OrOp>(before, op.getSmallest() ? andNot(mineIs, otherIs) : andNot(otherIs, mineIs));
    equal = b.op<OrOp>(equal, b.op<AndOp>(mineIs, otherIs));
  }
  Value own = b.iota(pairs, dim);
  Value earlier = b.compare(Predicate::lt, b.iota(pairs, dim + 1), own);
  before = b.op<OrOp>(before, b.op<AndOp>(equal, earlier));
  Value place = b.reduceSum(b.cast(before, builder.getI64Type()), {dim + 1});
  Value wanted = b.iota(places, dim + 1);
  Value here = b.compare(Predicate::eq, spread(place, k, dim), wanted);
  Value index = b.keepWhere(here, b.iota(places, dim));
  Value least = leastLike(b, type.clone(places));
  Value element = b.select(here, spread(op.getX(), k, dim), least);
  op.getValues().replaceAllUsesWith(b.reduceMax(element, {dim}));
  op.getIndices().replaceAllUsesWith(b.reduceSum(index, {dim}));
  op.erase();
}

struct ExpandTopKPass : impl::ExpandTopKPassBase<ExpandTopKPass> {
  using ExpandTopKPassBase::ExpandTopKPassBase;

  void runOnOperation() final {
    SmallVector<TopKOp> operations;
    getOperation().walk([&](TopKOp op) {
      if (shapeOf(op.getX())[op.getDim()] <= mostSortedByComparing)
        operations.push_back(op);
    });
    llvm::for_each(operations, expand);
  }
};
} // namespace
} // namespace divisi::codegen
