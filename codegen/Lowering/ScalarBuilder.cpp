#include "codegen/Lowering/ScalarBuilder.h"

#include "dialects/Graph/WholeNumber.h"

#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include "codegen/Lowering/LoopInterface.cpp.inc"

using namespace mlir;
using namespace divisi::codegen;

LoopDomain LoopDomain::pointwise(Operation *op) {
  LoopDomain domain;
  domain.extents = llvm::to_vector(cast<RankedTensorType>(op->getResult(0).getType()).getShape());
  domain.reduced.assign(domain.extents.size(), false);
  return domain;
}

int64_t LoopDomain::points() const {
  int64_t count = 1;
  for (int64_t extent : extents)
    count *= extent;
  return count;
}

SmallVector<Value> LoopDomain::resultIndex(ValueRange point) const {
  SmallVector<Value> index;
  for (auto [value, isReduced] : llvm::zip(point, reduced))
    if (!isReduced)
      index.push_back(value);
  return index;
}

Value ScalarBuilder::index(int64_t value) { return arith::ConstantIndexOp::create(builder, loc, value); }

Value ScalarBuilder::clampIndex(Value a, int64_t size) {
  Value zero = index(0);
  if (size == 1) // so that nothing hides that it does not depend on `a`
    return zero;
  return op<arith::MaxSIOp>(op<arith::MinSIOp>(a, index(size - 1)), zero);
}

Value ScalarBuilder::inRange(Value a, int64_t size) {
  return op<arith::CmpIOp>(arith::CmpIPredicate::ult, a, index(size));
}

/// The index of which the two are the quotient and the remainder of a division by a number; null if they are not.
static Value dividedBy(Value quotient, Value remainder, int64_t number) {
  auto div = quotient.getDefiningOp<arith::DivUIOp>();
  auto rem = remainder.getDefiningOp<arith::RemUIOp>();
  bool fits = div && rem && div.getLhs() == rem.getLhs() && getConstantIntValue(div.getRhs()) == number &&
              getConstantIntValue(rem.getRhs()) == number;
  return fits ? div.getLhs() : Value();
}

Value ScalarBuilder::linearize(ValueRange index, ArrayRef<int64_t> shape) {
  Value linear;
  for (auto [value, size] : llvm::zip(index, shape)) {
    Value whole = linear ? dividedBy(linear, value, size) : value;
    linear = whole ? whole : addIndex(mulIndex(linear, size), value);
  }
  return linear ? linear : this->index(0);
}

SmallVector<Value> ScalarBuilder::delinearize(Value linear, ArrayRef<int64_t> shape) {
  SmallVector<Value> index(shape.size());
  int64_t first = 0;
  while (first < (int64_t)shape.size() && shape[first] == 1)
    index[first++] = this->index(0);
  for (int64_t d = shape.size() - 1; d >= first; --d) {
    index[d] = d == first ? linear : remIndex(linear, shape[d]);
    if (d != first)
      linear = divIndex(linear, shape[d]);
  }
  return index;
}

Type ScalarBuilder::scalarType(Type element) {
  if (auto integer = dyn_cast<IntegerType>(element))
    return IntegerType::get(element.getContext(), integer.getWidth());
  return element;
}

Value ScalarBuilder::constant(Type element, double value) {
  if (isa<FloatType>(element))
    return arith::ConstantOp::create(builder, loc, builder.getFloatAttr(element, value));
  return integer(element, divisi::graph::wholeNumber(value));
}

Value ScalarBuilder::integer(Type element, int64_t value) {
  Type type = scalarType(element);
  APInt bits(type.getIntOrFloatBitWidth(), value, /*isSigned=*/true, /*implicitTrunc=*/true);
  return arith::ConstantOp::create(builder, loc, type, builder.getIntegerAttr(type, bits));
}

Value ScalarBuilder::widen(Value value) {
  if (isa<FloatType>(value.getType()) && value.getType().getIntOrFloatBitWidth() < 32)
    return op<arith::ExtFOp>(builder.getF32Type(), value);
  return value;
}

Value ScalarBuilder::narrow(Value value, Type type) {
  if (value.getType() == type || !isa<FloatType>(type))
    return value;
  return op<arith::TruncFOp>(type, value);
}

Value ScalarBuilder::convert(Value value, Type from, Type to) {
  Type target = scalarType(to);
  if (from == to)
    return value;
  bool fromUnsigned = from.isUnsignedInteger() || from.isInteger(1);
  if (to.isInteger(1)) {
    if (isa<FloatType>(from))
      return op<arith::CmpFOp>(arith::CmpFPredicate::UNE, value, constant(from, 0));
    return op<arith::CmpIOp>(arith::CmpIPredicate::ne, value, integer(from, 0));
  }
  if (isa<FloatType>(from) && isa<FloatType>(to)) {
    unsigned a = from.getIntOrFloatBitWidth(), b = to.getIntOrFloatBitWidth();
    if (a == b) // the 16-bit types: f16 and bf16
      return op<arith::TruncFOp>(target, widen(value));
    return a < b ? op<arith::ExtFOp>(target, value) : op<arith::TruncFOp>(target, value);
  }
  if (isa<FloatType>(from)) {
    value = widen(value);
    if (to.isUnsignedInteger())
      return op<arith::FPToUIOp>(target, value);
    return op<arith::FPToSIOp>(target, value);
  }
  if (isa<FloatType>(to)) {
    Type wide = to.getIntOrFloatBitWidth() < 32 ? (Type)builder.getF32Type() : to;
    Value result = fromUnsigned ? op<arith::UIToFPOp>(wide, value) : op<arith::SIToFPOp>(wide, value);
    return narrow(result, to);
  }
  unsigned a = from.getIntOrFloatBitWidth(), b = to.getIntOrFloatBitWidth();
  if (a == b)
    return value;
  if (a > b)
    return op<arith::TruncIOp>(target, value);
  return fromUnsigned ? op<arith::ExtUIOp>(target, value) : op<arith::ExtSIOp>(target, value);
}

Value ScalarBuilder::add(Value a, Value b) {
  if (!isa<FloatType>(a.getType()))
    return op<arith::AddIOp>(a, b);
  return wide<arith::AddFOp>(a, b);
}

Value ScalarBuilder::mul(Value a, Value b) {
  if (!isa<FloatType>(a.getType()))
    return op<arith::MulIOp>(a, b);
  return wide<arith::MulFOp>(a, b);
}

Value ScalarBuilder::accumulate(Value a, Value b) {
  if (!isa<FloatType>(a.getType()))
    return op<arith::AddIOp>(a, b);
  auto flags = arith::FastMathFlags::reassoc | arith::FastMathFlags::contract | arith::FastMathFlags::nsz;
  return wide<arith::AddFOp>(a, b, flags);
}

Value ScalarBuilder::max(Value a, Value b, bool isUnsigned) {
  if (isa<FloatType>(a.getType()))
    return wide<arith::MaximumFOp>(a, b);
  return isUnsigned ? op<arith::MaxUIOp>(a, b) : op<arith::MaxSIOp>(a, b);
}

Value ScalarBuilder::min(Value a, Value b, bool isUnsigned) {
  if (isa<FloatType>(a.getType()))
    return wide<arith::MinimumFOp>(a, b);
  return isUnsigned ? op<arith::MinUIOp>(a, b) : op<arith::MinSIOp>(a, b);
}

Value ScalarBuilder::load(Value buffer, ValueRange index) {
  return memref::LoadOp::create(builder, loc, buffer, index);
}

void ScalarBuilder::store(Value value, Value buffer, ValueRange index) {
  memref::StoreOp::create(builder, loc, value, buffer, index);
}

SmallVector<Value> ScalarBuilder::loop(Value lower, Value upper, ValueRange carried,
                                       llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body, int64_t step) {
  auto loop = scf::ForOp::create(builder, loc, lower, upper, index(step), carried);
  OpBuilder::InsertionGuard guard(builder);
  if (carried.empty()) {
    builder.setInsertionPoint(loop.getBody()->getTerminator());
    body(loop.getInductionVar(), {});
  } else {
    builder.setInsertionPointToEnd(loop.getBody());
    scf::YieldOp::create(builder, loc, body(loop.getInductionVar(), loop.getRegionIterArgs()));
  }
  return llvm::to_vector_of<Value>(loop.getResults());
}

void ScalarBuilder::when(Value condition, llvm::function_ref<void()> then) {
  if (!condition)
    return then();
  auto branch = scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(branch.thenBlock()->getTerminator());
  then();
}

SmallVector<Value> ScalarBuilder::loops(ArrayRef<int64_t> extents, ValueRange carried,
                                        llvm::function_ref<SmallVector<Value>(ValueRange, ValueRange)> body) {
  SmallVector<Value> indices;
  std::function<SmallVector<Value>(size_t, ValueRange)> nest = [&](size_t depth, ValueRange values) {
    if (depth == extents.size())
      return body(indices, values);
    if (extents[depth] == 1) {
      indices.push_back(index(0));
      auto result = nest(depth + 1, values);
      indices.pop_back();
      return result;
    }
    return loop(0, extents[depth], values, [&](Value i, ValueRange inner) {
      indices.push_back(i);
      auto result = nest(depth + 1, inner);
      indices.pop_back();
      return result;
    });
  };
  return nest(0, carried);
}
