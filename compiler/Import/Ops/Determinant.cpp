#include "compiler/Import/Operators.h"

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;
using Shape = CheckedBuilder::Shape;

/// The largest matrices; their elimination is unrolled.
static constexpr int64_t mostRows = 64;

/// The product of the pivots of a Gaussian elimination with partial pivoting, whose gradient is the determinant's where it is not 0.
static Results importDet(N &n) {
  Value x = n.in(0);
  Shape shape(shapeOf(x));
  if (shape.size() < 2 || shape.back() != shape[shape.size() - 2] || shape.back() > mostRows || !n.isFloat(x))
    fail("its input ", shapeText(shape), " is not of square matrices of floats with at most ", mostRows, " rows");
  int64_t size = shape.back(), count = 1;
  shape.resize(shape.size() - 2);
  for (int64_t d : shape)
    count *= d;
  Type element = n.elementOf(x);
  Value rest = n.reshape(x, {count, size, size}), product = n.splatOf({count}, element, 1);
  for (int64_t left = size; left > 0; --left) {
    Value column = n.reshape(n.sliceDim(rest, 2, 0, 1), {count, left});
    Value largest = n.op<ArgMaxOp>(n.op<AbsOp>(column), 1, false); // [count]
    Value place = n.broadcast(largest, {count, left}, {0});
    Value chosen = n.compare(Predicate::eq, n.iota({count, left}, 1), place);
    Value row = n.reduceSum(n.keepWhere(n.broadcast(chosen, {count, left, left}, {0, 1}), rest), {1}); // [count, left]
    Value pivot = n.reshape(n.sliceDim(row, 1, 0, 1), {count});
    Value first = n.compareTo(Predicate::eq, largest, 0);
    product = n.mul(product, n.select(first, pivot, n.neg(pivot)));
    if (left == 1)
      break;
    // The first row takes the chosen one's place.
    Shape smaller{count, left - 1, left - 1};
    auto last = [&](Value y, int64_t dim) { return n.sliceDim(y, dim, 1, left - 1); };
    Value top = n.broadcast(n.reshape(n.sliceDim(rest, 1, 0, 1), {count, left}), {count, left - 1, left}, {0, 2});
    Value below = last(rest, 1);
    Value others = n.select(n.broadcast(last(chosen, 1), {count, left - 1, left}, {0, 1}), top, below);
    Value isZero = n.compareTo(Predicate::eq, pivot, 0);
    Value divisor = n.broadcast(n.select(isZero, n.splatLike(pivot, 1), pivot), {count, left - 1}, {0});
    Value by = n.div(n.reshape(n.sliceDim(others, 2, 0, 1), {count, left - 1}), divisor);
    Value across = n.broadcast(last(row, 1), smaller, {0, 2});
    Value product = n.mul(n.broadcast(by, smaller, {0, 1}), across);
    rest = n.sub(last(others, 2), product);
  }
  return {n.reshape(product, shape)};
}

llvm::ArrayRef<Operator> divisi::compiler::determinantOperators() {
  static constexpr Operator rows[] = {{"Det", 11, newest, importDet}};
  return rows;
}
