#include "compiler/Import/Operators.h"

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;

static Results importSum(N &n) { return {n.fold<AddOp>()}; }
static Results importMean(N &n) {
  Value sum = n.fold<AddOp>();
  return {n.div(sum, n.splatLike(sum, n.numInputs()))};
}

//===- Log, Sub -----------------------------------------------------------===//

/// Whether all elements are the constant 1.
static bool isOne(Value value) {
  while (isa_and_nonnull<BroadcastOp, CastOp, ReshapeOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  auto constant = value.getDefiningOp<ConstantOp>();
  auto data = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  return data && numberOfAll(data) == 1;
}

/// x if `sum` is x + 1.
static Value plusOne(Value sum) {
  auto add = sum.getDefiningOp<AddOp>();
  if (!add)
    return {};
  return isOne(add.getRhs()) ? add.getLhs() : isOne(add.getLhs()) ? add.getRhs() : Value();
}

/// x if `value` is e^x, perhaps broadcast.
static Value exponentOf(N &n, Value value) {
  if (auto broadcast = value.getDefiningOp<BroadcastOp>()) {
    Value x = exponentOf(n, broadcast.getX());
    return x ? n.broadcast(x, shapeOf(value), broadcast.getDims()) : Value();
  }
  auto exp = value.getDefiningOp<ExpOp>();
  return exp ? exp.getX() : Value();
}

/// log(e^x + e^y) = max(x, y) + log(1 + e^-|x - y|), also where both are the same infinity.
static Value logAddExp(N &n, Value x, Value y) {
  Value same = n.compare(Predicate::eq, x, y), none = n.splatLike(x, 0);
  Value apart = n.op<AbsOp>(n.select(same, none, n.sub(x, y)));
  Value most = n.op<MaxOp>(x, y), rest = n.op<SoftplusOp>(n.neg(apart));
  return n.add(most, rest);
}

/// Exporters write PyTorch's logsigmoid as Log(Sigmoid(x)), which is -inf where the sigmoid is 0, that of -x (in a binary
/// cross-entropy of logits) as Log(1 - Sigmoid(x)), its logaddexp as Log(Exp(x) + Exp(y)), which overflows, and its log1p as
/// Log(x + 1), which is 0 where x + 1 is rounded to 1.
static Results importLog(N &n) {
  Value x = n.in(0);
  if (auto sigmoid = x.getDefiningOp<SigmoidOp>())
    return {n.neg(n.op<SoftplusOp>(n.neg(sigmoid.getX())))};
  if (auto sub = x.getDefiningOp<SubOp>(); sub && isOne(sub.getLhs()))
    if (auto sigmoid = sub.getRhs().getDefiningOp<SigmoidOp>())
      return {n.neg(n.op<SoftplusOp>(sigmoid.getX()))};
  if (auto add = x.getDefiningOp<AddOp>()) {
    Value left = exponentOf(n, add.getLhs()), right = exponentOf(n, add.getRhs());
    if (left && right)
      return {logAddExp(n, left, right)};
  }
  Value log = n.op<LogOp>(x), small = n.isFloat(x) ? plusOne(x) : Value();
  if (!small)
    return {log};
  // log1p(v) = log(u) * v / (u - 1), where u is v + 1 as it is rounded (W. Kahan; Higham, Accuracy and Stability of
  // Numerical Algorithms, section 1.14.1). The gradient is that of the logarithm, which loses nothing.
  Value rounded = n.addConst(x, -1);
  Value exact = n.div(n.mul(log, small), rounded);
  Value value = n.select(n.compareTo(Predicate::eq, x, 1), small, exact);
  return {n.op<StraightThroughOp>(log, n.select(n.compareTo(Predicate::gt, small, 1), log, value))};
}

/// Exporters write PyTorch's expm1 as Exp(x) - 1, which has no digit of a small x. There it is 2 t / (1 - t), where t is
/// tanh(x / 2); the gradient is that of the exponential function.
static Results importSub(N &n) {
  Value difference = n.binary<SubOp>(n.in(0), n.in(1));
  auto sub = difference.getDefiningOp<SubOp>();
  auto exp = sub ? sub.getLhs().getDefiningOp<ExpOp>() : ExpOp();
  if (!exp || !isOne(sub.getRhs()))
    return {difference};
  Value x = exp.getX(), t = n.op<TanhOp>(n.scale(x, 0.5));
  Value divisor = n.addConst(n.neg(t), 1);
  Value exact = n.div(n.scale(t, 2), divisor);
  Value isSmall = n.compareTo(Predicate::lt, n.op<AbsOp>(x), 1);
  return {n.op<StraightThroughOp>(difference, n.select(isSmall, exact, difference))};
}

//===- Sqrt, Pow, Mod -----------------------------------------------------===//

/// x^2, |x|^3 = |x| * |x|^2 or |x|^p.
static bool isPowerOfAbs(Value value) {
  if (auto power = value.getDefiningOp<PowOp>())
    return power.getLhs().getDefiningOp<AbsOp>() != nullptr;
  auto product = value.getDefiningOp<MulOp>();
  if (!product || product.getLhs() == product.getRhs())
    return product != nullptr;
  auto square = product.getRhs().getDefiningOp<MulOp>();
  return product.getLhs().getDefiningOp<AbsOp>() && square && square.getLhs() == product.getLhs() && square.getRhs() == product.getLhs();
}

/// Whether a value is a sum or mean of squares or of powers of absolute values: a norm before its root, or a variance.
static bool isSumOfPowers(N &n, Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto sum = dyn_cast<ReduceSumOp>(op))
      return isPowerOfAbs(sum.getX());
    if (isa<ReshapeOp, BroadcastOp>(op) || (isa<MulOp, DivOp>(op) && n.knownNumber(op->getOperand(1)))) // of a mean
      value = op->getOperand(0);
    else if (isa<MulOp>(op) && n.knownNumber(op->getOperand(0)))
      value = op->getOperand(1);
    else
      return false;
  }
  return false;
}

static Results importSqrt(N &n) {
  Value x = n.in(0);
  return {isSumOfPowers(n, x) ? n.length(x) : n.op<SqrtOp>(x)};
}

/// x to a known power; null if there is no simpler computation than graph.pow.
static Value knownPower(N &n, Value x, double power) {
  if (power == 1)
    return x;
  if (power == 2)
    return n.mul(x, x);
  if (power == 3)
    return n.mul(x, n.mul(x, x));
  if (!n.isFloat(x))
    return {};
  if (power == 0.5)
    return n.op<SqrtOp>(x);
  if (power == -0.5)
    return n.op<RsqrtOp>(x);
  if (power == -1)
    return n.op<ReciprocalOp>(x);
  return {};
}

/// A power with the base's type. Powers of integers are computed in double precision.
static Results importPow(N &n) {
  Value x = n.in(0), y = n.in(1);
  auto power = n.known(y);
  if (auto number = power ? numberOfAll(*power) : std::nullopt) {
    Value base = n.broadcastTo(x, broadcastShape({shapeOf(x), shapeOf(y)}));
    if (*number > 0 && *number < 1 && n.isFloat(base) && isSumOfPowers(n, base))
      return {n.length(base, *number)};
    if (Value result = knownPower(n, base, *number))
      return {result};
    y = n.splatOf(shapeOf(y), n.elementOf(y), *number);
  }
  Type element = n.elementOf(x);
  if (n.isFloat(x))
    return {n.binary<PowOp>(x, n.cast(y, element))};
  Type wide = n.getBuilder().getF64Type();
  Value exponent = n.cast(y, wide);
  return {n.cast(n.binary<PowOp>(n.cast(x, wide), exponent), element)};
}

/// The remainder of integers has the divisor's sign; with fmod, the dividend's.
static Results importMod(N &n) {
  Value r = n.binary<RemOp>(n.in(0), n.in(1));
  Value divisor = n.broadcastTo(n.in(1), shapeOf(r));
  auto type = dyn_cast<IntegerType>(n.elementOf(r));
  if (n.integer("fmod", 0) || (type && type.isUnsigned()))
    return {r};
  Value below = n.compareTo(Predicate::lt, divisor, 0);
  Value differs = n.op<XorOp>(n.compareTo(Predicate::lt, r, 0), below);
  Value fix = n.both(n.compareTo(Predicate::ne, r, 0), differs);
  return {n.select(fix, n.add(r, divisor), r)};
}

//===- Bits ---------------------------------------------------------------===//

/// A right shift that fills with zeros, or with the sign of a signed integer.
static Value shiftRight(N &n, Value x, Value by) {
  Value shifted = n.binary<ShiftRightOp>(x, by);
  auto type = dyn_cast<IntegerType>(n.elementOf(x));
  if (!type || type.isUnsigned())
    return shifted;
  x = n.broadcastTo(x, shapeOf(shifted));
  Value negative = n.op<NotOp>(n.binary<ShiftRightOp>(n.op<NotOp>(x), by));
  return n.select(n.compareTo(Predicate::lt, x, 0), negative, shifted);
}

static Results importBitShift(N &n) {
  std::string direction = n.text("direction", "");
  if (direction == "LEFT")
    return binary<ShiftLeftOp>(n);
  if (direction == "RIGHT")
    return {shiftRight(n, n.in(0), n.in(1))};
  fail("direction '", direction, "' is neither LEFT nor RIGHT");
}

//===- Cast, IsInf --------------------------------------------------------===//

static Results importCast(N &n) { return {n.cast(n.in(0), n.elementAttr("to", n.elementOf(n.in(0))))}; }

/// Booleans are bytes.
static Results importBitCast(N &n) {
  Value x = n.in(0);
  Type byte = IntegerType::get(n.getLoc().getContext(), 8, IntegerType::Unsigned), to = n.elementAttr("to", {});
  if (!to)
    fail("it does not say to which type");
  bool toBool = to.isInteger(1);
  if (n.elementOf(x).isInteger(1))
    x = n.cast(x, byte);
  Type element = toBool ? byte : to;
  if (element.getIntOrFloatBitWidth() != n.elementOf(x).getIntOrFloatBitWidth())
    fail("the types ", n.elementOf(n.in(0)), " and ", to, " differ in width");
  Value bits = n.elementOf(x) == element ? x : n.op<BitcastOp>(n.type(shapeOf(x), element), x);
  return {n.cast(bits, to)};
}

static Results importCastLike(N &n) { return {n.cast(n.in(0), n.elementOf(n.in(1)))}; }

static Results importIsNan(N &n) {
  return {n.op<IsNanOp>(n.type(shapeOf(n.in(0)), n.getBuilder().getI1Type()), n.in(0))};
}
static Results importIsInf(N &n) {
  Value x = n.in(0);
  bool positive = n.integer("detect_positive", 1), negative = n.integer("detect_negative", 1);
  Value infinite = n.op<IsInfOp>(n.type(shapeOf(x), n.getBuilder().getI1Type()), x);
  if (!positive && !negative)
    return {n.splatLike(infinite, 0)};
  if (positive && negative)
    return {infinite};
  return {n.both(infinite, n.compareTo(positive ? Predicate::gt : Predicate::lt, x, 0))};
}

llvm::ArrayRef<Operator> divisi::compiler::mathOperators() {
  static constexpr Operator rows[] = {
      {"Abs", 6, newest, unary<AbsOp>},
      {"Acos", 7, newest, unary<AcosOp>},
      {"Acosh", 9, newest, unary<AcoshOp>},
      {"Add", 7, newest, binary<AddOp>},
      {"Asin", 7, newest, unary<AsinOp>},
      {"Asinh", 9, newest, unary<AsinhOp>},
      {"Atan", 7, newest, unary<AtanOp>},
      {"Atanh", 9, newest, unary<AtanhOp>},
      {"BitCast", 26, newest, importBitCast},
      {"BitShift", 11, newest, importBitShift},
      {"BitwiseAnd", 18, newest, binary<AndOp>},
      {"BitwiseNot", 18, newest, unary<NotOp>},
      {"BitwiseOr", 18, newest, binary<OrOp>},
      {"BitwiseXor", 18, newest, binary<XorOp>},
      {"Cast", 6, newest, importCast},
      {"CastLike", 15, newest, importCastLike},
      {"Ceil", 6, newest, unary<CeilOp>},
      {"Cos", 7, newest, unary<CosOp>},
      {"Cosh", 9, newest, unary<CoshOp>},
      {"Div", 7, newest, binary<DivOp>},
      {"Erf", 9, newest, unary<ErfOp>},
      {"Exp", 6, newest, unary<ExpOp>},
      {"Floor", 6, newest, unary<FloorOp>},
      {"IsInf", 10, newest, importIsInf},
      {"IsNaN", 9, newest, importIsNan},
      {"Log", 6, newest, importLog},
      {"Mean", 6, newest, importMean},
      {"Mod", 10, newest, importMod},
      {"Mul", 7, newest, binary<MulOp>},
      {"Neg", 6, newest, unary<NegOp>},
      {"Pow", 7, newest, importPow},
      {"Reciprocal", 6, newest, unary<ReciprocalOp>},
      {"Round", 11, newest, unary<RoundOp>},
      {"Sign", 9, newest, unary<SignOp>},
      {"Sin", 7, newest, unary<SinOp>},
      {"Sinh", 9, newest, unary<SinhOp>},
      {"Sqrt", 6, newest, importSqrt},
      {"Sub", 7, newest, importSub},
      {"Sum", 6, newest, importSum},
      {"Tan", 7, newest, unary<TanOp>},
  };
  return rows;
}
