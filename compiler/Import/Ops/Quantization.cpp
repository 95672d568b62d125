#include "compiler/Import/Operators.h"
#include "compiler/Import/Ops/Contraction.h"
#include "compiler/Import/Ops/Convolution.h"

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;
using Shape = CheckedBuilder::Shape;

//===- Integers as numbers ------------------------------------------------===//

namespace {
/// The integers that a quantized type holds.
struct Range {
  double low, high;
};
} // namespace

static Range rangeOf(Type element) {
  auto type = dyn_cast<IntegerType>(element);
  if (!type || type.getWidth() < 8 || type.getWidth() > 16)
    fail("numbers are quantized to 8 or 16 bits, not to ", element);
  double count = 1 << type.getWidth();
  return type.isUnsigned() ? Range{0, count - 1} : Range{-count / 2, count / 2 - 1};
}

/// A scale or zero point for each element of `shape`: one number, one for each index along `axis`, or one for each block
/// of `block` indices along it.
static Value spread(N &n, Value value, CheckedBuilder::Dims shape, int64_t axis, int64_t block) {
  int64_t rank = shape.size();
  if (tensorType(value).getNumElements() == 1)
    return n.broadcast(n.reshape(value, {}), shape, {});
  axis = n.axis(axis, rank);
  if (n.rankOf(value) == 1 && shapeOf(value)[0] == shape[axis])
    return n.along(value, shape, axis);
  Shape blocks(shape);
  if (block > 0)
    blocks[axis] = (shape[axis] + block - 1) / block;
  if (block <= 0 || shapeOf(value) != ArrayRef<int64_t>(blocks))
    fail("scales or zero points ", shapeText(shapeOf(value)), " do not fit ", shapeText(shape));
  Shape wide = blocks, dims = dimRange(0, rank);
  wide.insert(wide.begin() + axis + 1, block);
  for (int64_t d : dimRange(axis + 1, rank))
    ++dims[d];
  Shape repeated = blocks;
  repeated[axis] *= block;
  return n.sliceDim(n.reshape(n.broadcast(value, wide, dims), repeated), axis, 0, shape[axis]);
}

/// Rounded, with the zero point added: where the type cannot hold it, the nearest number that it holds.
static Value saturated(N &n, Value rounded, Range range) {
  return n.clamp(rounded, range.low, range.high);
}

//===- QuantizeLinear, DequantizeLinear -----------------------------------===//

static Results importQuantizeLinear(N &n) {
  Value x = n.in(0), scale = n.in(1), zero = n.maybe(2);
  int64_t axis = n.integer("axis", 1), block = n.integer("block_size", 0);
  auto shape = shapeOf(x);
  Type missing = IntegerType::get(n.getLoc().getContext(), 8, IntegerType::Unsigned);
  Type element = zero ? n.elementOf(zero) : n.elementAttr("output_dtype", missing);
  Range range = rangeOf(element);
  if (!n.isFloat(scale))
    fail("its scale is of the type ", n.elementOf(scale));
  Type wide = n.elementAttr("precision", n.isFloat(x) ? n.elementOf(x) : n.elementOf(scale));
  Value divisor = spread(n, n.cast(scale, wide), shape, axis, block);
  Value quotient = n.div(n.cast(x, wide), divisor);
  // Zero points are added in single precision, which holds them and their sums exactly.
  Type exact = wide.isF64() ? wide : Type(n.f32());
  Value rounded = n.cast(n.op<RoundOp>(quotient), exact);
  if (zero)
    rounded = n.add(rounded, spread(n, n.cast(zero, exact), shape, axis, block));
  Value result = n.cast(saturated(n, rounded, range), element);
  if (n.isFloat(x)) { // the gradient passes where the number is in range
    Value below = n.compareTo(Predicate::le, rounded, range.high);
    Value inside = n.both(n.compareTo(Predicate::ge, rounded, range.low), below);
    n.model.quantized[result] = n.keepWhere(inside, x);
  }
  return {result};
}

/// (x - zero point) * scale. Of what QuantizeLinear computed, the gradient is that of the number before it: the
/// straight-through estimator.
static Results importDequantizeLinear(N &n) {
  Value x = n.in(0), scale = n.in(1), zero = n.maybe(2);
  int64_t axis = n.integer("axis", 1), block = n.integer("block_size", 0);
  if (!isa<IntegerType>(n.elementOf(x)) || !n.isFloat(scale))
    fail("it takes integers and a floating-point scale, not ", n.elementOf(x), " and ", n.elementOf(scale));
  Type element = n.elementAttr("output_dtype", n.elementOf(scale));
  Type exact = n.elementOf(scale).isF64() ? n.elementOf(scale) : Type(n.f32());
  auto shape = shapeOf(x);
  Value difference = n.cast(x, n.i64());
  if (zero)
    difference = n.sub(difference, spread(n, n.cast(zero, n.i64()), shape, axis, block));
  Value factor = spread(n, n.cast(scale, exact), shape, axis, block);
  Value y = n.mul(n.cast(difference, exact), factor);
  y = n.cast(y, element);
  auto before = n.model.quantized.find(x);
  if (before == n.model.quantized.end())
    return {y};
  return {n.op<StraightThroughOp>(n.cast(before->second, element), y)};
}

/// The scale and zero point come from the largest and the smallest element.
static Results importDynamicQuantizeLinear(N &n) {
  Value x = n.in(0);
  if (!n.elementOf(x).isF32() || tensorType(x).getNumElements() == 0)
    fail("it takes numbers of single precision");
  Shape all = dimRange(0, n.rankOf(x));
  Value none = n.splatOf({}, n.f32(), 0);
  Value high = n.op<MaxOp>(n.reduceMax(x, all), none), low = n.op<MinOp>(n.reduce<ReduceMinOp>(x, all), none);
  Value scale = n.scale(n.sub(high, low), 1.0 / 255);
  Value one = n.splatLike(scale, 1);
  Value divisor = n.select(n.compareTo(Predicate::eq, scale, 0), one, scale);
  Value zero = saturated(n, n.op<RoundOp>(n.neg(n.div(low, divisor))), {0, 255});
  auto spreadAll = [&](Value v) { return n.broadcast(v, shapeOf(x), {}); };
  Value zeros = spreadAll(zero);
  Value y = n.add(n.op<RoundOp>(n.div(x, spreadAll(divisor))), zeros);
  Type element = IntegerType::get(n.getLoc().getContext(), 8, IntegerType::Unsigned);
  return {n.cast(saturated(n, y, {0, 255}), element), scale, n.cast(zero, element)};
}

//===- Contractions of integers -------------------------------------------===//

/// Integers minus their zero point as doubles: their products and sums are exact.
static Value centered(N &n, Value x, Value zero, int64_t axis) {
  if (!isa<IntegerType>(n.elementOf(x)))
    fail("it multiplies integers, not ", n.elementOf(x));
  Type wide = n.getBuilder().getF64Type();
  Value number = n.cast(x, wide);
  return zero ? n.sub(number, spread(n, n.cast(zero, wide), shapeOf(x), axis, 0)) : number;
}

/// The product's integers times a * b / c, rounded to the type of the zero point `zero`.
static Value requantized(N &n, Value product, Value a, Value b, Value c, Value zero, int64_t axis) {
  Type wide = n.getBuilder().getF64Type();
  auto shape = shapeOf(product);
  auto factor = [&](Value v) { return spread(n, n.cast(v, wide), shape, axis, 0); };
  Value ofC = factor(c), ofB = factor(b);
  Value scaled = n.mul(product, n.div(n.mul(factor(a), ofB), ofC));
  Value rounded = n.op<RoundOp>(n.add(scaled, spread(n, n.cast(zero, wide), shape, axis, 0)));
  return n.cast(saturated(n, rounded, rangeOf(n.elementOf(zero))), n.elementOf(zero));
}

static Results importMatMulInteger(N &n) {
  Value a = centered(n, n.in(0), n.maybe(2), -2), b = centered(n, n.in(1), n.maybe(3), -1);
  return {n.cast(generalMatmul(n, a, b), n.getBuilder().getI32Type())};
}
static Results importQLinearMatMul(N &n) {
  Value a = centered(n, n.in(0), n.in(2), -2), b = centered(n, n.in(3), n.in(5), -1);
  return {requantized(n, generalMatmul(n, a, b), n.in(1), n.in(4), n.in(6), n.in(7), -1)};
}
static Results importConvInteger(N &n) {
  Value x = centered(n, n.in(0), n.maybe(2), 1), filter = centered(n, n.in(1), n.maybe(3), 0);
  return {n.cast(convolution(n, x, filter), n.getBuilder().getI32Type())};
}
static Results importQLinearConv(N &n) {
  Value x = centered(n, n.in(0), n.in(2), 1), filter = centered(n, n.in(3), n.in(5), 0);
  Value y = convolution(n, x, filter);
  if (Value bias = n.maybe(8))
    y = addPerChannel(n, y, n.cast(bias, n.getBuilder().getF64Type()));
  return {requantized(n, y, n.in(1), n.in(4), n.in(6), n.in(7), 1)};
}

llvm::ArrayRef<Operator> divisi::compiler::quantizationOperators() {
  static constexpr Operator rows[] = {
      {"ConvInteger", 10, newest, importConvInteger},
      {"DequantizeLinear", 10, newest, importDequantizeLinear},
      {"DynamicQuantizeLinear", 11, newest, importDynamicQuantizeLinear},
      {"MatMulInteger", 10, newest, importMatMulInteger},
      {"QLinearConv", 10, newest, importQLinearConv},
      {"QLinearMatMul", 10, newest, importQLinearMatMul},
      {"QuantizeLinear", 10, newest, importQuantizeLinear},
  };
  return rows;
}
