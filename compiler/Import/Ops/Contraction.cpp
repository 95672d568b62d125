#include "compiler/Import/Ops/Contraction.h"
#include "compiler/Import/Operators.h"

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;
using Shape = CheckedBuilder::Shape;

/// The operand of a transpose of exactly the last two dimensions; null if the value is no such transpose.
static Value lastTwoTransposed(Value value) {
  auto transpose = value.getDefiningOp<TransposeOp>();
  if (!transpose)
    return {};
  Shape swapped = dimRange(0, transpose.getPermutation().size());
  if (swapped.size() < 2)
    return {};
  std::swap(swapped[swapped.size() - 1], swapped[swapped.size() - 2]);
  return transpose.getPermutation() == ArrayRef<int64_t>(swapped) ? transpose.getX() : Value();
}

Value divisi::compiler::matmulOf(CheckedBuilder &b, Value lhs, Value rhs, bool transposeLhs, bool transposeRhs) {
  if (Value inner = lastTwoTransposed(lhs))
    lhs = inner, transposeLhs = !transposeLhs;
  if (Value inner = lastTwoTransposed(rhs))
    rhs = inner, transposeRhs = !transposeRhs;
  return b.matmul(lhs, rhs, transposeLhs, transposeRhs);
}

/// Replaces the last two dimensions of a shape.
static Shape withMatrix(ArrayRef<int64_t> batch, ArrayRef<int64_t> matrix) {
  Shape shape(batch);
  llvm::append_range(shape, matrix);
  return shape;
}

/// Matmul of operands of rank 2 or more.
static Value batchMatmul(CheckedBuilder &b, Value lhs, Value rhs) {
  auto left = shapeOf(lhs), right = shapeOf(rhs);
  auto leftBatch = left.drop_back(2), rightBatch = right.drop_back(2);
  bool rightIsMatrix = llvm::all_of(rightBatch, [](int64_t d) { return d == 1; });
  if (rightIsMatrix && right.size() <= left.size() && left.size() > 2) {
    Value rows = b.reshape(lhs, {llvm::product_of(left.drop_back()), left.back()});
    Value result = matmulOf(b, rows, b.reshape(rhs, right.take_back(2)));
    return b.reshape(result, withMatrix(left.drop_back(), {right.back()}));
  }
  Shape batch = broadcastShape({leftBatch, rightBatch});
  auto widen = [&](Value x) {
    Shape shape = withMatrix(batch, shapeOf(x).take_back(2));
    return shapeOf(x) == ArrayRef<int64_t>(shape) ? x : b.broadcastTo(x, shape);
  };
  Value wideRhs = widen(rhs);
  return matmulOf(b, widen(lhs), wideRhs);
}

Value divisi::compiler::generalMatmul(CheckedBuilder &b, Value lhs, Value rhs) {
  bool leftVector = b.rankOf(lhs) == 1, rightVector = b.rankOf(rhs) == 1;
  if (b.rankOf(lhs) < 1 || b.rankOf(rhs) < 1)
    fail("its inputs must not be scalars");
  if (leftVector)
    lhs = b.reshape(lhs, {1, shapeOf(lhs)[0]});
  if (rightVector)
    rhs = b.reshape(rhs, {shapeOf(rhs)[0], 1});
  if (shapeOf(lhs).back() != shapeOf(rhs)[b.rankOf(rhs) - 2])
    fail("cannot multiply ", shapeText(shapeOf(lhs)), " by ", shapeText(shapeOf(rhs)));
  Value result = batchMatmul(b, lhs, rhs);
  Shape shape(shapeOf(result));
  if (rightVector)
    shape.pop_back();
  if (leftVector)
    shape.erase(shape.end() - (rightVector ? 1 : 2));
  return b.reshape(result, shape);
}

static Results importMatMul(N &n) {
  if (n.elementOf(n.in(0)) != n.elementOf(n.in(1)))
    fail("element types differ: ", n.elementOf(n.in(0)), " and ", n.elementOf(n.in(1)));
  return {generalMatmul(n, n.in(0), n.in(1))};
}

Value divisi::compiler::gemm(N &n) {
  Value a = n.in(0), b = n.in(1);
  if (n.rankOf(a) != 2 || n.rankOf(b) != 2)
    fail("it multiplies matrices, not ", shapeText(shapeOf(a)), " and ", shapeText(shapeOf(b)));
  auto scaled = [&](Value x, double by) { return by == 1 ? x : n.scale(x, by); };
  Value result = matmulOf(n, a, b, n.integer("transA", 0), n.integer("transB", 0));
  result = scaled(result, n.number("alpha", 1));
  if (Value c = n.maybe(2))
    result = n.add(result, n.broadcastTo(scaled(c, n.number("beta", 1)), shapeOf(result)));
  return result;
}
static Results importGemm(N &n) { return {gemm(n)}; }

static Results importEinsum(N &n) { return {einsum(n, n.text("equation", ""), n.all())}; }

llvm::ArrayRef<Operator> divisi::compiler::contractionOperators() {
  static constexpr Operator rows[] = {
      {"Einsum", 12, newest, importEinsum},
      {"Gemm", 7, newest, importGemm},
      {"MatMul", 1, newest, importMatMul},
  };
  return rows;
}
