#include "codegen/Lowering/Families.h"

#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;
using namespace divisi::graph;

namespace {
using S = ScalarBuilder;
using Values = SmallVector<Value>;

/// The loop domain: the result's dimensions with the window's inserted before the last one, so that the innermost loop
/// runs over contiguous elements. Only windowed dimensions get a loop.
struct Windows {
  SmallVector<int64_t> dims; // windowed dimensions
  LoopDomain domain;
  int64_t rank;

  Windows(ArrayRef<int64_t> result, ArrayRef<int64_t> window) : rank(result.size()) {
    for (int64_t d = 0; d < rank; ++d)
      if (window[d] != 1)
        dims.push_back(d);
    for (int64_t d = 0; d < rank; ++d) {
      if (d == rank - 1) {
        for (int64_t w : dims)
          domain.extents.push_back(window[w]);
        if (dims.empty()) // windows of one element are reductions, too
          domain.extents.push_back(1);
        domain.reduced.resize(domain.extents.size(), true);
      }
      domain.extents.push_back(result[d]);
      domain.reduced.push_back(false);
    }
  }
  /// The offset within the window, one per dimension.
  Values offsets(S &s, ValueRange point) const {
    Values result(rank, s.index(0));
    for (auto [i, d] : llvm::enumerate(dims))
      result[d] = point[rank - 1 + i];
    return result;
  }
};

/// The row-major number of an offset within the window.
Value numberOf(S &s, ValueRange offsets, ArrayRef<int64_t> window) {
  return s.op<arith::IndexCastOp>(s.getBuilder().getI32Type(), s.linearize(offsets, window));
}

template <typename OpT> Windows windowsOf(OpT op) { return Windows(shapeOf(op.getResult()), op.getVisited()); }

struct Read {
  Values index;
  Value inside; // null: always inside

  bool isNever() const { return inside && matchPattern(inside, m_Zero()); }
};
void require(S &s, Read &read, Value condition) {
  if (!read.isNever())
    read.inside = read.inside ? s.logicalAnd(read.inside, condition) : condition;
}

/// The index of x that the window of result element `at` reads at this offset.
template <typename OpT> Read readOfWindow(S &s, OpT op, ValueRange at, ValueRange offsets, ArrayRef<int64_t> x) {
  Read read;
  for (size_t d = 0; d < x.size(); ++d) {
    int64_t stride = op.getStrides()[d], low = op.getPadsLow()[d], window = op.getWindow()[d];
    if (stride == 1 && low == 0 && window == 1) {
      read.index.push_back(at[d]);
      continue;
    }
    Value inWindow = s.mulIndex(offsets[d], op.getDilations()[d]);
    Value i = s.addIndex(s.mulIndex(at[d], stride), inWindow);
    i = s.addIndex(i, -low);
    int64_t last = (shapeOf(op.getResult())[d] - 1) * stride + (window - 1) * op.getDilations()[d] - low;
    if (low != 0 || last >= x[d]) {
      require(s, read, s.inRange(i, x[d]));
      i = s.clampIndex(i, x[d]);
    }
    read.index.push_back(i);
  }
  return read;
}

/// A window that contains an element, if it does, and the element's offset within it.
struct Containing : Read {
  Values offset;
};

/// The window of a candidate that contains element `at` of x.
template <typename OpT>
Containing windowOfElement(S &s, OpT op, ValueRange at, ValueRange candidate, ArrayRef<int64_t> windows) {
  Containing read;
  for (size_t d = 0; d < windows.size(); ++d) {
    int64_t stride = op.getStrides()[d], low = op.getPadsLow()[d], window = op.getWindow()[d];
    if (stride == 1 && low == 0 && window == 1) {
      read.index.push_back(at[d]);
      read.offset.push_back(s.index(0));
      continue;
    }
    Value i = s.addIndex(at[d], low), offset = candidate[d];
    if (op.getDilations()[d] == 1) { // windows before the last one that begins at the element or before it
      const S::Together &near = s.together;
      Value first, rest = i; // i is stride * first + rest
      if (near.count > 1 && at[d] == near.at && near.count % stride == 0) {
        first = s.divIndex(near.first, stride);
        rest = s.index(near.offset + low);
      }
      Value last = s.divIndex(rest, stride);
      Value steps = s.mulIndex(candidate[d], stride);
      offset = s.addIndex(s.remIndex(rest, stride), steps);
      if (window % stride != 0)
        require(s, read, s.inRange(offset, window));
      i = s.subIndex(last, candidate[d]);
      std::optional<int64_t> distance = getConstantIntValue(i);
      if (first) {
        i = s.addIndex(first, i);
        // The elements that are computed together are those of whole strides.
        if (distance && *distance >= 0 && *distance < near.count / stride &&
            shapeOf(op.getResult())[d] / stride <= windows[d]) {
          read.index.push_back(i);
          read.offset.push_back(offset);
          continue;
        }
      }
    } else {
      i = s.subIndex(i, s.mulIndex(offset, op.getDilations()[d]));
      if (stride != 1) {
        Value remainder = s.op<arith::RemSIOp>(i, s.index(stride));
        require(s, read, s.op<arith::CmpIOp>(arith::CmpIPredicate::eq, remainder, s.index(0)));
        i = s.op<arith::FloorDivSIOp>(i, s.index(stride));
      }
    }
    require(s, read, s.inRange(i, windows[d]));
    read.index.push_back(s.clampIndex(i, windows[d]));
    read.offset.push_back(offset);
  }
  return read;
}

struct MaxPool : LoopInterface::ExternalModel<MaxPool, MaxPoolOp> {
  LoopDomain getLoopDomain(Operation *op) const { return windowsOf(cast<MaxPoolOp>(op)).domain; }
  Values emitInit(Operation *op, S &s) const {
    Type element = tensorType(op->getOperand(0)).getElementType();
    Value lowest;
    if (isa<FloatType>(element))
      lowest = s.constant(element, -std::numeric_limits<double>::infinity());
    else if (element.isUnsignedInteger())
      lowest = s.integer(element, 0);
    else
      lowest = s.integer(element, APInt::getSignedMinValue(element.getIntOrFloatBitWidth()).getSExtValue());
    return {lowest, s.integer(s.getBuilder().getI32Type(), -1)};
  }
  /// The first maximum wins. NaN is greater than every number.
  Values emitStep(Operation *op, S &s, ValueRange point, ValueRange best, Load load) const {
    auto pool = cast<MaxPoolOp>(op);
    Windows windows = windowsOf(pool);
    Values offsets = windows.offsets(s, point);
    Read read = readOfWindow(s, pool, windows.domain.resultIndex(point), offsets, shapeOf(pool.getX()));
    Value value = load(0, read.index), better;
    bool isFloat = isa<FloatType>(value.getType());
    bool noSign = tensorType(pool.getX()).getElementType().isUnsignedInteger();
    Value none = s.op<arith::CmpIOp>(arith::CmpIPredicate::slt, best[1], s.integer(best[1].getType(), 0));
    if (isFloat) {
      Value isNumber = s.op<arith::CmpFOp>(arith::CmpFPredicate::ORD, best[0], best[0]);
      better = s.logicalAnd(s.op<arith::CmpFOp>(arith::CmpFPredicate::UGT, value, best[0]), isNumber);
    } else
      better = s.op<arith::CmpIOp>(noSign ? arith::CmpIPredicate::ugt : arith::CmpIPredicate::sgt, value, best[0]);
    better = s.op<arith::OrIOp>(better, none);
    if (read.inside)
      better = s.logicalAnd(better, read.inside);
    Value number = numberOf(s, offsets, pool.getWindow());
    return {s.select(better, value, best[0]), s.select(better, number, best[1])};
  }
};

struct SumPool : LoopInterface::ExternalModel<SumPool, SumPoolOp> {
  LoopDomain getLoopDomain(Operation *op) const { return windowsOf(cast<SumPoolOp>(op)).domain; }
  Values emitInit(Operation *op, S &s) const { return {s.constant(tensorType(op->getOperand(0)).getElementType(), 0)}; }
  Values emitStep(Operation *op, S &s, ValueRange point, ValueRange sum, Load load) const {
    auto pool = cast<SumPoolOp>(op);
    Windows windows = windowsOf(pool);
    Read read =
        readOfWindow(s, pool, windows.domain.resultIndex(point), windows.offsets(s, point), shapeOf(pool.getX()));
    Value value = load(0, read.index);
    if (read.inside)
      value = s.select(read.inside, value, s.constant(value.getType(), 0));
    return {s.add(sum[0], value)};
  }
  Values emitCombine(Operation *, S &s, ValueRange a, ValueRange b) const { return {s.add(a[0], b[0])}; }
};

/// Gradients of pooling gather: each element sums over the windows that contain it, so that no two threads write one
/// element.
template <typename OpT, bool onlyMaximum>
struct PoolGrad : LoopInterface::ExternalModel<PoolGrad<OpT, onlyMaximum>, OpT> {
  LoopDomain getLoopDomain(Operation *op) const { return windowsOf(cast<OpT>(op)).domain; }
  Values emitInit(Operation *op, S &s) const { return {s.constant(tensorType(op->getOperand(0)).getElementType(), 0)}; }
  Values emitStep(Operation *op, S &s, ValueRange point, ValueRange sum, Load load) const {
    auto pool = cast<OpT>(op);
    Windows windows = windowsOf(pool);
    Containing read = windowOfElement(s, pool, windows.domain.resultIndex(point), windows.offsets(s, point),
                                      shapeOf(pool.getGradient()));
    if (read.isNever())
      return {sum[0]};
    Value value = load(0, read.index);
    if (onlyMaximum) {
      Value number = numberOf(s, read.offset, pool.getWindow());
      require(s, read, s.op<arith::CmpIOp>(arith::CmpIPredicate::eq, load(1, read.index), number));
    }
    if (read.inside)
      value = s.select(read.inside, value, s.constant(value.getType(), 0));
    return {s.add(sum[0], value)};
  }
  Values emitCombine(Operation *, S &s, ValueRange a, ValueRange b) const { return {s.add(a[0], b[0])}; }
};
} // namespace

void codegen::attachPooling(MLIRContext *context) {
  MaxPoolOp::attachInterface<MaxPool>(*context);
  SumPoolOp::attachInterface<SumPool>(*context);
  MaxPoolGradOp::attachInterface<PoolGrad<MaxPoolGradOp, true>>(*context);
  SumPoolGradOp::attachInterface<PoolGrad<SumPoolGradOp, false>>(*context);
}
