#include "dialects/Graph/GraphBuilder.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <numbers>

using namespace mlir;
using namespace divisi;
using namespace divisi::graph;
using Values = SmallVector<Value>;
using B = GraphBuilder;

#define GET_OP_CLASSES
#include "dialects/Graph/Elementwise.cpp.inc"

void GraphDialect::addElementwise() {
  addOperations<
#define GET_OP_LIST
#include "dialects/Graph/Elementwise.cpp.inc"
      >();
}

static bool isFloat(Value value) { return isa<FloatType>(tensorType(value).getElementType()); }

//===- Gradients of one operand: g is the result's gradient, x the operand, y the result -===//

#define UNARY_GRADIENT(OP, EXPRESSION)                                                                                 \
  Values OP::buildGradient(B &b, ArrayRef<Value> gradients) {                                                          \
    Value g = gradients[0];                                                                                            \
    [[maybe_unused]] Value x = getX(), y = getResult();                                                                \
    if (!g)                                                                                                            \
      return {Value()};                                                                                                \
    return {EXPRESSION};                                                                                               \
  }
#define NO_GRADIENT(OP)                                                                                                \
  Values OP::buildGradient(B &, ArrayRef<Value>) { return Values(getOperation()->getNumOperands()); }

/// 1 - v^2 and 1 + v^2.
static Value oneMinusSquare(B &b, Value v) { return b.addConst(b.neg(b.mul(v, v)), 1); }
static Value onePlusSquare(B &b, Value v) { return b.addConst(b.mul(v, v), 1); }

/// `gradient`, which is 0 where g is 0, also if the derivative is infinite there: so clamp(log(x), -100) and
/// where(c, sqrt(x), 0) have no NaN where the other side is taken, as PyTorch's own kernels of such losses.
static Value whereFlows(B &b, Value g, Value gradient) {
  if (auto number = splatOf(g); number && *number != 0)
    return gradient;
  return b.keepWhere(b.compareConst(Predicate::ne, g, 0), gradient);
}

static Value rsqrtGradient(B &b, Value g, Value y) {
  Value cube = b.mul(y, b.mul(y, y));
  return b.mul(b.scale(g, -0.5), cube);
}
static Value erfGradient(B &b, Value g, Value x) {
  Value bell = b.op<ExpOp>(b.neg(b.mul(x, x)));
  return b.mul(b.scale(g, 2 * std::numbers::inv_sqrtpi), bell);
}

UNARY_GRADIENT(NegOp, b.neg(g))
UNARY_GRADIENT(AbsOp, b.mul(g, b.op<SignOp>(x)))
UNARY_GRADIENT(ExpOp, whereFlows(b, g, b.mul(g, y)))
UNARY_GRADIENT(LogOp, whereFlows(b, g, b.div(g, x)))
UNARY_GRADIENT(SqrtOp, whereFlows(b, g, b.div(b.scale(g, 0.5), y)))
UNARY_GRADIENT(RsqrtOp, whereFlows(b, g, rsqrtGradient(b, g, y)))
UNARY_GRADIENT(ReciprocalOp, whereFlows(b, g, b.neg(b.mul(g, b.mul(y, y)))))
UNARY_GRADIENT(TanhOp, b.mul(g, oneMinusSquare(b, y)))
UNARY_GRADIENT(ErfOp, erfGradient(b, g, x))
UNARY_GRADIENT(SigmoidOp, b.mul(g, b.mul(y, b.addConst(b.neg(y), 1))))
UNARY_GRADIENT(SoftplusOp, b.mul(g, b.op<SigmoidOp>(x)))
UNARY_GRADIENT(ReluOp, b.keepWhere(b.compareConst(Predicate::gt, y, 0), g))
UNARY_GRADIENT(SinOp, b.mul(g, b.op<CosOp>(x)))
UNARY_GRADIENT(CosOp, b.neg(b.mul(g, b.op<SinOp>(x))))
UNARY_GRADIENT(TanOp, b.mul(g, onePlusSquare(b, y)))
UNARY_GRADIENT(AsinOp, whereFlows(b, g, b.mul(g, b.op<RsqrtOp>(oneMinusSquare(b, x)))))
UNARY_GRADIENT(AcosOp, whereFlows(b, g, b.neg(b.mul(g, b.op<RsqrtOp>(oneMinusSquare(b, x))))))
UNARY_GRADIENT(AtanOp, b.div(g, onePlusSquare(b, x)))
UNARY_GRADIENT(SinhOp, whereFlows(b, g, b.mul(g, b.op<CoshOp>(x))))
UNARY_GRADIENT(CoshOp, whereFlows(b, g, b.mul(g, b.op<SinhOp>(x))))
UNARY_GRADIENT(AsinhOp, b.mul(g, b.op<RsqrtOp>(onePlusSquare(b, x))))
UNARY_GRADIENT(AcoshOp, whereFlows(b, g, b.mul(g, b.op<RsqrtOp>(b.addConst(b.mul(x, x), -1)))))
UNARY_GRADIENT(AtanhOp, whereFlows(b, g, b.div(g, oneMinusSquare(b, x))))
NO_GRADIENT(FloorOp)
NO_GRADIENT(CeilOp)
NO_GRADIENT(RoundOp)
NO_GRADIENT(SignOp)
NO_GRADIENT(NotOp)
NO_GRADIENT(IsNanOp)
NO_GRADIENT(IsInfOp)
NO_GRADIENT(BitcastOp)
NO_GRADIENT(CompareOp)
NO_GRADIENT(AndOp)
NO_GRADIENT(OrOp)
NO_GRADIENT(XorOp)
NO_GRADIENT(ShiftLeftOp)
NO_GRADIENT(ShiftRightOp)

LogicalResult BitcastOp::verify() {
  auto width = [](Value v) { return tensorType(v).getElementTypeBitWidth(); };
  if (width(getX()) != width(getResult()))
    return emitOpError("constraint 2: element types differ in width: ")
           << tensorType(getX()).getElementType() << " and " << tensorType(getResult()).getElementType();
  return success();
}

Values StraightThroughOp::decompose(B &) { return {getValue()}; }
Values StraightThroughOp::buildGradient(B &, ArrayRef<Value> gradients) { return {gradients[0], Value()}; }

Values CastOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  if (!gradients[0] || !isFloat(getX()) || !isFloat(getResult()))
    return {Value()};
  return {b.cast(gradients[0], tensorType(getX()).getElementType())};
}

/// The constants of the tanh approximation: sqrt(2/pi) and 0.044715 (arXiv 1606.08415).
static constexpr double geluCubic = 0.044715;
static const double geluScale = std::sqrt(2 / std::numbers::pi);

static Value geluInner(B &b, Value x) {
  return b.scale(b.mul(x, b.addConst(b.scale(b.mul(x, x), geluCubic), 1)), geluScale);
}

Values GeluOp::decompose(B &b) {
  if (getWhole())
    return {};
  Value x = getX();
  Value f = getTanh() ? b.op<TanhOp>(geluInner(b, x)) : b.op<ErfOp>(b.scale(x, 1 / std::numbers::sqrt2));
  Value factor = b.addConst(f, 1);
  return {b.mul(b.scale(x, 0.5), factor)};
}

Values GeluOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  return {gradients[0] ? b.op<GeluGradOp>(getX(), gradients[0], getTanh(), getWhole()) : Value()};
}
Values GeluGradOp::buildGradient(B &, ArrayRef<Value>) { return Values(2); }

Values GeluGradOp::decompose(B &b) {
  if (getWhole())
    return {};
  Value g = getGradient(), x = getX();
  if (getTanh()) { // 0.5 (1 + t) + 0.5 x (1 - t^2) u', with t = tanh u
    Value t = b.op<TanhOp>(geluInner(b, x));
    Value slope = b.scale(b.addConst(b.scale(b.mul(x, x), 3 * geluCubic), 1), geluScale);
    Value derivative = oneMinusSquare(b, t);
    Value second = b.mul(b.mul(b.scale(x, 0.5), derivative), slope);
    return {b.mul(g, b.add(b.scale(b.addConst(t, 1), 0.5), second))};
  }
  Value cdf = b.scale(b.addConst(b.op<ErfOp>(b.scale(x, 1 / std::numbers::sqrt2)), 1), 0.5);
  Value pdf = b.scale(b.op<ExpOp>(b.scale(b.mul(x, x), -0.5)), std::numbers::inv_sqrtpi / std::numbers::sqrt2);
  return {b.mul(g, b.add(cdf, b.mul(x, pdf)))};
}

//===- Two and three operands ---------------------------------------------===//

#define BINARY_GRADIENT(OP, LEFT, RIGHT)                                                                               \
  Values OP::buildGradient(B &b, ArrayRef<Value> gradients) {                                                          \
    Value g = gradients[0];                                                                                            \
    [[maybe_unused]] Value x = getLhs(), y = getRhs(), z = getResult();                                                \
    if (!g || !isFloat(x))                                                                                             \
      return {Value(), Value()};                                                                                       \
    return {LEFT, RIGHT};                                                                                              \
  }

/// The gradients of lhs and rhs: each gets g where it wins, and half of it on a tie (as in PyTorch). The second is g
/// minus the first, so that no part is lost or counted twice, even if the two are computed on different devices.
static Values sharesOfWinner(B &b, Value g, Value x, Value y, Predicate wins) {
  Value tie = b.compare(Predicate::eq, x, y);
  Value won = b.keepWhere(b.compare(wins, x, y), g);
  Value left = b.select(tie, b.scale(g, 0.5), won);
  return {left, b.sub(g, left)};
}

/// g * y * x^(y-1), which is 0 for y = 0 and any x.
static Value powLeft(B &b, Value g, Value x, Value y) {
  Value slope = b.mul(y, b.op<PowOp>(x, b.addConst(y, -1)));
  Value none = b.splatLike(y, 0);
  return whereFlows(b, g, b.mul(g, b.select(b.compareConst(Predicate::eq, y, 0), none, slope)));
}

/// g * z * log(x), which is 0 for x = 0.
static Value powRight(B &b, Value g, Value x, Value z) {
  Value zero = b.compareConst(Predicate::eq, x, 0);
  Value safe = b.select(zero, b.splatLike(x, 1), x);
  return whereFlows(b, g, b.mul(g, b.mul(z, b.op<LogOp>(safe))));
}

BINARY_GRADIENT(AddOp, g, g)
BINARY_GRADIENT(SubOp, g, b.neg(g))
BINARY_GRADIENT(MulOp, b.mul(g, y), b.mul(g, x))
/// The gradient of a quotient by y.
static Value divided(B &b, Value g, Value gradient, Value y) {
  auto number = splatOf(y);
  return number && *number != 0 ? gradient : whereFlows(b, g, gradient);
}
BINARY_GRADIENT(DivOp, divided(b, g, b.div(g, y), y), divided(b, g, b.neg(b.div(b.mul(g, z), y)), y))
BINARY_GRADIENT(PowOp, powLeft(b, g, x, y), powRight(b, g, x, z))

#define EXTREMUM_GRADIENT(OP, WINS)                                                                                    \
  Values OP::buildGradient(B &b, ArrayRef<Value> gradients) {                                                          \
    if (!gradients[0] || !isFloat(getLhs()))                                                                           \
      return {Value(), Value()};                                                                                       \
    return sharesOfWinner(b, gradients[0], getLhs(), getRhs(), Predicate::WINS);                                       \
  }
EXTREMUM_GRADIENT(MaxOp, gt)
EXTREMUM_GRADIENT(MinOp, lt)

/// z = x - y * trunc(x / y).
Values RemOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  Value g = gradients[0], x = getLhs(), y = getRhs();
  if (!g || !isFloat(x))
    return {Value(), Value()};
  return {g, b.neg(b.mul(g, b.div(b.sub(x, getResult()), y)))};
}

Values SelectOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  Value g = gradients[0];
  if (!g || !isFloat(g))
    return Values(3);
  return {Value(), b.keepWhere(getCondition(), g), b.select(getCondition(), b.splatLike(g, 0), g)};
}
