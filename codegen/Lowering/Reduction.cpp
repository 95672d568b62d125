#include "codegen/Lowering/Families.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;
using namespace divisi::graph;

namespace {
using S = ScalarBuilder;
using Values = SmallVector<Value>;

bool isUnsigned(Type element) { return element.isUnsignedInteger() || element.isInteger(1); }

/// The neutral element of a minimum or maximum.
Value worst(S &s, Type element, bool smallest) {
  if (isa<FloatType>(element))
    return s.constant(element,
                      smallest ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity());
  unsigned width = element.getIntOrFloatBitWidth();
  APInt value = isUnsigned(element) ? (smallest ? APInt::getMinValue(width) : APInt::getMaxValue(width))
                                    : (smallest ? APInt::getSignedMinValue(width) : APInt::getSignedMaxValue(width));
  return s.integer(element, value.getSExtValue());
}

LoopDomain reductionDomain(Value x, ArrayRef<int64_t> dims) {
  LoopDomain domain;
  domain.extents = llvm::to_vector(shapeOf(x));
  for (size_t d = 0; d < domain.extents.size(); ++d)
    domain.reduced.push_back(llvm::is_contained(dims, (int64_t)d));
  return domain;
}

Value init(S &s, ReduceSumOp, Type element) { return s.constant(element, 0); }
Value init(S &s, ReduceProdOp, Type element) { return s.constant(element, 1); }
Value init(S &s, ReduceMaxOp, Type element) { return worst(s, element, true); }
Value init(S &s, ReduceMinOp, Type element) { return worst(s, element, false); }
Value combine(S &s, ReduceSumOp, Value a, Value b, Type) { return s.accumulate(a, b); }
Value combine(S &s, ReduceProdOp, Value a, Value b, Type) { return s.mul(a, b); }
Value combine(S &s, ReduceMaxOp, Value a, Value b, Type type) { return s.max(a, b, isUnsigned(type)); }
Value combine(S &s, ReduceMinOp, Value a, Value b, Type type) { return s.min(a, b, isUnsigned(type)); }

template <typename OpT> struct Reduce : LoopInterface::ExternalModel<Reduce<OpT>, OpT> {
  LoopDomain getLoopDomain(Operation *op) const { return reductionDomain(op->getOperand(0), cast<OpT>(op).getDims()); }
  Values emitInit(Operation *op, S &s) const {
    return {init(s, cast<OpT>(op), tensorType(op->getOperand(0)).getElementType())};
  }
  Values emitStep(Operation *op, S &s, ValueRange point, ValueRange accumulators, Load load) const {
    Type element = tensorType(op->getOperand(0)).getElementType();
    return {combine(s, cast<OpT>(op), accumulators[0], load(0, point), element)};
  }
  Values emitCombine(Operation *op, S &s, ValueRange a, ValueRange b) const {
    return {combine(s, cast<OpT>(op), a[0], b[0], tensorType(op->getOperand(0)).getElementType())};
  }
};

/// Accumulators: the index of the best element so far (-1: none) and its value.
template <typename OpT, bool largest> struct ArgReduce : SerialInterface::ExternalModel<ArgReduce<OpT, largest>, OpT> {
  int64_t getParallelExtent(Operation *op) const { return tensorType(op->getResult(0)).getNumElements(); }
  bool readsOnce(Operation *) const { return true; }
  void emitSerial(Operation *op, S &s, const SerialPiece &piece, Load load, Value result) const {
    auto arg = cast<OpT>(op);
    ArrayRef<int64_t> shape = shapeOf(arg.getX()), to = shapeOf(arg.getResult());
    int64_t dim = arg.getDim();
    Type element = tensorType(arg.getX()).getElementType(), i64 = s.getBuilder().getI64Type();
    s.loop(piece.begin, piece.end, {}, [&](Value linear, ValueRange) {
      Values target = s.delinearize(linear, to);
      auto at = [&](Value k) {
        Values index = target;
        index.insert(index.begin() + dim, k);
        return load(0, index);
      };
      Values start = {at(s.index(0)), s.integer(i64, 0)};
      auto best = s.loop(1, shape[dim], start, [&](Value k, ValueRange best) -> Values {
        Value value = at(k), better;
        bool orEqual = arg.getLast();
        if (isa<FloatType>(element)) {
          using P = arith::CmpFPredicate;
          better =
              s.op<arith::CmpFOp>(largest ? (orEqual ? P::UGE : P::UGT) : (orEqual ? P::ULE : P::ULT), value, best[0]);
          // The first NaN is the best, for the maximum and for the minimum.
          better = s.logicalAnd(better, s.op<arith::CmpFOp>(P::ORD, best[0], best[0]));
        } else {
          using P = arith::CmpIPredicate;
          bool u = isUnsigned(element);
          P more = u ? (orEqual ? P::uge : P::ugt) : (orEqual ? P::sge : P::sgt);
          P less = u ? (orEqual ? P::ule : P::ult) : (orEqual ? P::sle : P::slt);
          better = s.op<arith::CmpIOp>(largest ? more : less, value, best[0]);
        }
        return {s.select(better, value, best[0]), s.select(better, s.op<arith::IndexCastOp>(i64, k), best[1])};
      });
      s.store(best[1], result, target);
      return Values();
    });
  }
};
} // namespace

void codegen::attachReduction(MLIRContext *context) {
  ReduceSumOp::attachInterface<Reduce<ReduceSumOp>>(*context);
  ReduceMaxOp::attachInterface<Reduce<ReduceMaxOp>>(*context);
  ReduceMinOp::attachInterface<Reduce<ReduceMinOp>>(*context);
  ReduceProdOp::attachInterface<Reduce<ReduceProdOp>>(*context);
  ArgMaxOp::attachInterface<ArgReduce<ArgMaxOp, true>>(*context);
  ArgMinOp::attachInterface<ArgReduce<ArgMinOp, false>>(*context);
}
