#include "codegen/Lowering/Families.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;
using namespace divisi::graph;

namespace {

using S = ScalarBuilder;
using Args = ArrayRef<Value>;

bool isUnsigned(Value tensor) { return tensorType(tensor).getElementType().isUnsignedInteger(); }
bool isFloat(Value scalar) { return isa<FloatType>(scalar.getType()); }

template <typename OpT> Value unary(S &s, Value x) { return s.narrow(s.op<OpT>(s.widen(x)), x.getType()); }
template <typename OpT> Value binary(S &s, Args x) {
  return s.wide<OpT>(x[0], x[1]);
}

#define MATH(GRAPH, MATH_OP)                                                                                           \
  Value emitScalar(GRAPH, S &s, Args x) { return unary<MATH_OP>(s, x[0]); }
MATH(ExpOp, math::ExpOp)
MATH(LogOp, math::LogOp)
MATH(SqrtOp, math::SqrtOp)
MATH(TanhOp, math::TanhOp)
MATH(ErfOp, math::ErfOp)
MATH(SinOp, math::SinOp)
MATH(CosOp, math::CosOp)
MATH(TanOp, math::TanOp)
MATH(AsinOp, math::AsinOp)
MATH(AcosOp, math::AcosOp)
MATH(AtanOp, math::AtanOp)
MATH(SinhOp, math::SinhOp)
MATH(CoshOp, math::CoshOp)
MATH(AsinhOp, math::AsinhOp)
MATH(AcoshOp, math::AcoshOp)
MATH(AtanhOp, math::AtanhOp)
MATH(FloorOp, math::FloorOp)
MATH(CeilOp, math::CeilOp)
MATH(RoundOp, math::RoundEvenOp)

Value emitScalar(NegOp, S &s, Args x) {
  if (isFloat(x[0]))
    return s.op<arith::NegFOp>(x[0]);
  return s.op<arith::SubIOp>(s.integer(x[0].getType(), 0), x[0]);
}
Value emitScalar(AbsOp op, S &s, Args x) {
  if (isFloat(x[0]))
    return s.op<math::AbsFOp>(x[0]);
  return isUnsigned(op.getX()) ? x[0] : s.op<math::AbsIOp>(x[0]);
}
Value one(S &s, Value like) { return s.constant(like.getType(), 1); }
Value zero(S &s, Value like) { return s.constant(like.getType(), 0); }
Value emitScalar(RsqrtOp, S &s, Args x) {
  Value wide = s.widen(x[0]);
  Value root = s.op<math::SqrtOp>(wide);
  return s.narrow(s.op<arith::DivFOp>(one(s, wide), root), x[0].getType());
}
Value emitScalar(ReciprocalOp, S &s, Args x) {
  Value wide = s.widen(x[0]);
  return s.narrow(s.op<arith::DivFOp>(one(s, wide), wide), x[0].getType());
}
Value emitScalar(SigmoidOp, S &s, Args x) {
  Value wide = s.widen(x[0]);
  Value e = s.op<math::ExpOp>(s.op<arith::NegFOp>(wide));
  Value divisor = s.op<arith::AddFOp>(one(s, wide), e);
  return s.narrow(s.op<arith::DivFOp>(one(s, wide), divisor), x[0].getType());
}
/// max(x, 0) + log1p(e^-|x|)
Value emitScalar(SoftplusOp, S &s, Args x) {
  Value wide = s.widen(x[0]);
  Value e = s.op<math::ExpOp>(s.op<arith::NegFOp>(s.op<math::AbsFOp>(wide)));
  Value positive = s.op<arith::MaximumFOp>(wide, zero(s, wide));
  return s.narrow(s.op<arith::AddFOp>(positive, s.op<math::Log1pOp>(e)), x[0].getType());
}
Value emitScalar(ReluOp op, S &s, Args x) { return s.max(x[0], zero(s, x[0]), isUnsigned(op.getX())); }
Value emitScalar(SignOp op, S &s, Args x) {
  Value zeroValue = zero(s, x[0]), oneValue = one(s, x[0]);
  if (isFloat(x[0])) { // NaN stays NaN, and zeros keep their sign
    Value positive = s.op<arith::CmpFOp>(arith::CmpFPredicate::OGT, x[0], zeroValue);
    Value negative = s.op<arith::CmpFOp>(arith::CmpFPredicate::OLT, x[0], zeroValue);
    Value minus = s.constant(x[0].getType(), -1);
    return s.select(positive, oneValue, s.select(negative, minus, x[0]));
  }
  auto greater = isUnsigned(op.getX()) ? arith::CmpIPredicate::ugt : arith::CmpIPredicate::sgt;
  Value positive = s.op<arith::CmpIOp>(greater, x[0], zeroValue);
  Value isZero = s.op<arith::CmpIOp>(arith::CmpIPredicate::eq, x[0], zeroValue);
  return s.select(positive, oneValue, s.select(isZero, zeroValue, s.integer(x[0].getType(), -1)));
}
Value emitScalar(NotOp, S &s, Args x) { return s.op<arith::XOrIOp>(x[0], s.integer(x[0].getType(), -1)); }
Value emitScalar(IsNanOp, S &s, Args x) { return s.op<arith::CmpFOp>(arith::CmpFPredicate::UNO, x[0], x[0]); }
Value emitScalar(IsInfOp, S &s, Args x) {
  Value wide = s.widen(x[0]);
  Value infinity = s.constant(wide.getType(), std::numeric_limits<double>::infinity());
  return s.op<arith::CmpFOp>(arith::CmpFPredicate::OEQ, s.op<math::AbsFOp>(wide), infinity);
}
Value emitScalar(CastOp op, S &s, Args x) {
  return s.convert(x[0], tensorType(op.getX()).getElementType(), tensorType(op.getResult()).getElementType());
}
Value emitScalar(BitcastOp op, S &s, Args x) {
  auto signless = [&](Value v) {
    Type element = tensorType(v).getElementType();
    return isa<FloatType>(element) ? element : s.getBuilder().getIntegerType(element.getIntOrFloatBitWidth());
  };
  Type to = signless(op.getResult());
  return signless(op.getX()) == to ? x[0] : s.op<arith::BitcastOp>(to, x[0]);
}

Value emitScalar(AddOp, S &s, Args x) { return s.add(x[0], x[1]); }
Value emitScalar(MulOp, S &s, Args x) { return s.mul(x[0], x[1]); }
Value emitScalar(SubOp, S &s, Args x) {
  return isFloat(x[0]) ? binary<arith::SubFOp>(s, x) : s.op<arith::SubIOp>(x[0], x[1]);
}
/// Integer division and remainder by zero give zero, because they must not trap.
template <typename Signed, typename Unsigned> Value guardedDivision(S &s, Args x, bool isUnsigned) {
  Type type = x[0].getType();
  Value none = s.op<arith::CmpIOp>(arith::CmpIPredicate::eq, x[1], s.integer(type, 0));
  Value divisor = s.select(none, s.integer(type, 1), x[1]);
  Value numerator = x[0];
  if (!isUnsigned) { // the smallest integer over -1 overflows
    int64_t smallest = APInt::getSignedMinValue(type.getIntOrFloatBitWidth()).getSExtValue();
    Value minus = s.op<arith::CmpIOp>(arith::CmpIPredicate::eq, divisor, s.integer(type, -1));
    Value edge = s.op<arith::CmpIOp>(arith::CmpIPredicate::eq, x[0], s.integer(type, smallest));
    Value none = s.integer(type, 0);
    numerator = s.select(s.logicalAnd(minus, edge), none, x[0]);
  }
  Value result = isUnsigned ? s.op<Unsigned>(numerator, divisor) : s.op<Signed>(numerator, divisor);
  return s.select(none, s.integer(type, 0), result);
}
Value emitScalar(DivOp op, S &s, Args x) {
  if (isFloat(x[0]))
    return binary<arith::DivFOp>(s, x);
  return guardedDivision<arith::DivSIOp, arith::DivUIOp>(s, x, isUnsigned(op.getLhs()));
}
Value emitScalar(RemOp op, S &s, Args x) {
  if (isFloat(x[0]))
    return binary<arith::RemFOp>(s, x);
  return guardedDivision<arith::RemSIOp, arith::RemUIOp>(s, x, isUnsigned(op.getLhs()));
}
/// Powers without a logarithm, for small exponents; null for others.
Value smallPower(S &s, Value x, double exponent) {
  Value wide = s.widen(x), result;
  if (exponent == 1)
    result = wide;
  else if (exponent == 2)
    result = s.op<arith::MulFOp>(wide, wide);
  else if (exponent == 3)
    result = s.op<arith::MulFOp>(s.op<arith::MulFOp>(wide, wide), wide);
  else if (exponent == 0.5)
    result = s.op<math::SqrtOp>(wide);
  else if (exponent == -1)
    result = s.op<arith::DivFOp>(one(s, wide), wide);
  else if (exponent == -0.5) {
    Value root = s.op<math::SqrtOp>(wide);
    result = s.op<arith::DivFOp>(one(s, wide), root);
  }
  return result ? s.narrow(result, x.getType()) : Value();
}
Value emitScalar(PowOp, S &s, Args x) {
  if (!isFloat(x[0])) {
    Type type = s.getBuilder().getF64Type();
    Value exponent = s.op<arith::SIToFPOp>(type, x[1]);
    Value power = s.op<math::PowFOp>(s.op<arith::SIToFPOp>(type, x[0]), exponent);
    return s.op<arith::FPToSIOp>(x[0].getType(), power);
  }
  FloatAttr exponent;
  if (matchPattern(x[1], m_Constant(&exponent)))
    if (Value small = smallPower(s, x[0], exponent.getValueAsDouble()))
      return small;
  return binary<math::PowFOp>(s, x);
}
Value emitScalar(MaxOp op, S &s, Args x) { return s.max(x[0], x[1], isUnsigned(op.getLhs())); }
Value emitScalar(MinOp op, S &s, Args x) { return s.min(x[0], x[1], isUnsigned(op.getLhs())); }
Value emitScalar(AndOp, S &s, Args x) { return s.op<arith::AndIOp>(x[0], x[1]); }
Value emitScalar(OrOp, S &s, Args x) { return s.op<arith::OrIOp>(x[0], x[1]); }
Value emitScalar(XorOp, S &s, Args x) { return s.op<arith::XOrIOp>(x[0], x[1]); }
/// Whether a shift leaves any bits: its amount is less than the width and not negative.
Value shiftInRange(S &s, Value amount) {
  Value width = s.integer(amount.getType(), amount.getType().getIntOrFloatBitWidth());
  return s.op<arith::CmpIOp>(arith::CmpIPredicate::ult, amount, width);
}
Value emitScalar(ShiftLeftOp, S &s, Args x) {
  Value safe = shiftInRange(s, x[1]), none = zero(s, x[0]);
  return s.select(safe, s.op<arith::ShLIOp>(x[0], s.select(safe, x[1], none)), none);
}
/// Signed numbers are shifted arithmetically.
Value emitScalar(ShiftRightOp op, S &s, Args x) {
  Value safe = shiftInRange(s, x[1]), none = zero(s, x[0]);
  if (isUnsigned(op.getLhs()))
    return s.select(safe, s.op<arith::ShRUIOp>(x[0], s.select(safe, x[1], none)), none);
  Value most = s.integer(x[0].getType(), x[0].getType().getIntOrFloatBitWidth() - 1);
  return s.op<arith::ShRSIOp>(x[0], s.select(safe, x[1], most));
}

Value emitScalar(CompareOp op, S &s, Args x) {
  using F = arith::CmpFPredicate;
  using I = arith::CmpIPredicate;
  static constexpr F floats[] = {F::OEQ, F::UNE, F::OLT, F::OLE, F::OGT, F::OGE};
  static constexpr I signedOnes[] = {I::eq, I::ne, I::slt, I::sle, I::sgt, I::sge};
  static constexpr I unsignedOnes[] = {I::eq, I::ne, I::ult, I::ule, I::ugt, I::uge};
  unsigned which = (unsigned)op.getPredicate();
  if (isFloat(x[0]))
    return s.op<arith::CmpFOp>(floats[which], x[0], x[1]);
  bool noSign = isUnsigned(op.getLhs()) || x[0].getType().isInteger(1);
  return s.op<arith::CmpIOp>(noSign ? unsignedOnes[which] : signedOnes[which], x[0], x[1]);
}
Value emitScalar(SelectOp, S &s, Args x) { return s.select(x[0], x[1], x[2]); }

/// Operations that read every operand at the result's index.
template <typename OpT> struct Elementwise : LoopInterface::ExternalModel<Elementwise<OpT>, OpT> {
  SmallVector<Value> emitStep(Operation *op, S &s, ValueRange point, ValueRange, Load load) const {
    SmallVector<Value> operands;
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      operands.push_back(load(i, point));
    return {emitScalar(cast<OpT>(op), s, operands)};
  }
};

template <typename... Ops> void attach(MLIRContext *context) {
  (Ops::template attachInterface<Elementwise<Ops>>(*context), ...);
}
} // namespace

void codegen::attachElementwise(MLIRContext *context) {
  attach<ExpOp, LogOp, SqrtOp, TanhOp, ErfOp, SinOp, CosOp, TanOp, AsinOp, AcosOp, AtanOp, SinhOp, CoshOp, AsinhOp,
         AcoshOp, AtanhOp, FloorOp, CeilOp, RoundOp, NegOp, AbsOp, RsqrtOp, ReciprocalOp, SigmoidOp, SoftplusOp, ReluOp,
         SignOp, NotOp, IsNanOp, IsInfOp, CastOp, BitcastOp, AddOp, MulOp, SubOp, DivOp, RemOp, PowOp, MaxOp, MinOp, AndOp, OrOp,
         XorOp, ShiftLeftOp, ShiftRightOp, CompareOp, SelectOp>(context);
}
