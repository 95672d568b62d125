#include "codegen/Lowering/Families.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;
using namespace divisi::graph;

namespace {
using S = ScalarBuilder;
using Values = SmallVector<Value>;

struct IotaLoop : LoopInterface::ExternalModel<IotaLoop, IotaOp> {
  Values emitStep(Operation *op, S &s, ValueRange point, ValueRange, Load) const {
    auto iota = cast<IotaOp>(op);
    Type element = tensorType(iota.getResult()).getElementType();
    Type i64 = s.getBuilder().getI64Type();
    Value index = s.op<arith::IndexCastOp>(i64, point[iota.getDim()]);
    return {s.convert(index, i64, element)};
  }
};

struct BroadcastLoop : LoopInterface::ExternalModel<BroadcastLoop, BroadcastOp> {
  Values emitStep(Operation *op, S &s, ValueRange point, ValueRange, Load load) const {
    auto broadcast = cast<BroadcastOp>(op);
    ArrayRef<int64_t> from = shapeOf(broadcast.getX());
    Values index;
    for (auto [i, d] : llvm::enumerate(broadcast.getDims()))
      index.push_back(from[i] == 1 ? s.index(0) : point[d]);
    return {load(0, index)};
  }
};

/// Dimensions are matched in groups of equal products, so that an index which is unchanged is not recomputed.
struct ReshapeLoop : LoopInterface::ExternalModel<ReshapeLoop, ReshapeOp> {
  Values emitStep(Operation *op, S &s, ValueRange point, ValueRange, Load load) const {
    ArrayRef<int64_t> from = shapeOf(op->getOperand(0)), to = shapeOf(op->getResult(0));
    Values index(from.size());
    size_t i = 0, j = 0;
    while (i < from.size() || j < to.size()) {
      size_t firstFrom = i, firstTo = j;
      int64_t a = i < from.size() ? from[i++] : 1, b = j < to.size() ? to[j++] : 1;
      while (a != b) {
        if (a < b && i < from.size())
          a *= from[i++];
        else if (j < to.size())
          b *= to[j++];
        else
          break; // only in empty tensors
      }
      Value linear = s.linearize(point.slice(firstTo, j - firstTo), to.slice(firstTo, j - firstTo));
      auto part = s.delinearize(linear, from.slice(firstFrom, i - firstFrom));
      llvm::copy(part, index.begin() + firstFrom);
    }
    return {load(0, index)};
  }
};

struct TransposeLoop : LoopInterface::ExternalModel<TransposeLoop, TransposeOp> {
  Values emitStep(Operation *op, S &, ValueRange point, ValueRange, Load load) const {
    Values index(point.size());
    for (auto [i, p] : llvm::enumerate(cast<TransposeOp>(op).getPermutation()))
      index[p] = point[i];
    return {load(0, index)};
  }
};

struct SliceLoop : LoopInterface::ExternalModel<SliceLoop, SliceOp> {
  Values emitStep(Operation *op, S &s, ValueRange point, ValueRange, Load load) const {
    auto slice = cast<SliceOp>(op);
    Values index;
    for (auto [i, value] : llvm::enumerate(point))
      index.push_back(s.addIndex(s.mulIndex(value, slice.getSteps()[i]), slice.getStarts()[i]));
    return {load(0, index)};
  }
};

/// Indices are clamped and the value selected, because a branch would prevent vectorization.
struct PadLoop : LoopInterface::ExternalModel<PadLoop, PadOp> {
  Values emitStep(Operation *op, S &s, ValueRange point, ValueRange, Load load) const {
    auto pad = cast<PadOp>(op);
    ArrayRef<int64_t> from = shapeOf(pad.getX()), to = shapeOf(pad.getResult());
    Type element = tensorType(pad.getX()).getElementType();
    Value outside = s.constant(element, pad.getValue().convertToDouble()), inside;
    if (tensorType(pad.getX()).getNumElements() == 0)
      return {outside};
    auto require = [&](Value condition) { inside = inside ? s.logicalAnd(inside, condition) : condition; };
    Values index;
    for (auto [d, value] : llvm::enumerate(point)) {
      int64_t step = pad.getSteps()[d], low = pad.getLow()[d];
      if (step == 1 && low == 0 && from[d] == to[d]) {
        index.push_back(value);
        continue;
      }
      Value offset = s.addIndex(value, -low);
      if (step < 0)
        offset = s.subIndex(s.index(0), offset);
      int64_t stride = std::abs(step);
      if (stride != 1) {
        Value zero = s.index(0);
        require(s.op<arith::CmpIOp>(arith::CmpIPredicate::eq, s.op<arith::RemSIOp>(offset, s.index(stride)), zero));
      }
      Value i = stride == 1 ? offset : s.op<arith::FloorDivSIOp>(offset, s.index(stride));
      require(s.inRange(i, from[d]));
      index.push_back(s.clampIndex(i, from[d]));
    }
    Value value = load(0, index);
    return {inside ? s.select(inside, value, outside) : value};
  }
};

struct ConcatLoop : LoopInterface::ExternalModel<ConcatLoop, ConcatOp> {
  Values emitStep(Operation *op, S &s, ValueRange point, ValueRange, Load load) const {
    auto concat = cast<ConcatOp>(op);
    int64_t dim = concat.getDim(), start = 0;
    Value result;
    for (auto [i, input] : llvm::enumerate(concat.getInputs())) {
      int64_t size = shapeOf(input)[dim];
      if (size == 0)
        continue;
      Values index = llvm::to_vector(point);
      index[dim] = s.clampIndex(s.addIndex(point[dim], -start), size);
      Value value = load(i, index);
      Value here = s.op<arith::CmpIOp>(arith::CmpIPredicate::sge, point[dim], s.index(start));
      result = result ? s.select(here, value, result) : value;
      start += size;
    }
    return {result};
  }
};
} // namespace

void codegen::attachShape(MLIRContext *context) {
  IotaOp::attachInterface<IotaLoop>(*context);
  BroadcastOp::attachInterface<BroadcastLoop>(*context);
  ReshapeOp::attachInterface<ReshapeLoop>(*context);
  TransposeOp::attachInterface<TransposeLoop>(*context);
  SliceOp::attachInterface<SliceLoop>(*context);
  PadOp::attachInterface<PadLoop>(*context);
  ConcatOp::attachInterface<ConcatLoop>(*context);
}
