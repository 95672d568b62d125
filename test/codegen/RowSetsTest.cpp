// Rows: the rule for which elements an operation reads agrees with its lowering.
#include "Samples.h"

#include "codegen/Kernels/RowSets.h"
#include "codegen/Lowering/ScalarBuilder.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;
using namespace divisi::test;

namespace {

/// Calls `visit` with each index of a shape in row-major order.
void forEachIndex(ArrayRef<int64_t> shape, llvm::function_ref<void(ArrayRef<int64_t>)> visit) {
  SmallVector<int64_t> index(shape.size(), 0);
  while (true) {
    visit(index);
    int64_t d = (int64_t)shape.size() - 1;
    while (d >= 0 && ++index[d] == shape[d])
      index[d--] = 0;
    if (d < 0)
      return;
  }
}

int64_t linear(ArrayRef<int64_t> index, ArrayRef<int64_t> shape) {
  int64_t position = 0;
  for (auto [i, size] : llvm::zip(index, shape))
    position = position * size + i;
  return position;
}

class Rows : public SampleTest {
protected:
  /// Calls `visit(result element, operand, operand element)` for every read of the operation's lowering.
  void forEachRead(LoopInterface loop, llvm::function_ref<void(int64_t, unsigned, int64_t)> visit) {
    LoopDomain domain = loop.getLoopDomain();
    forEachIndex(domain.extents, [&](ArrayRef<int64_t> at) {
      Block block;
      OpBuilder builder(loop.getContext());
      builder.setInsertionPointToEnd(&block);
      ScalarBuilder scalar(builder, loop.getLoc());
      SmallVector<Value> point;
      SmallVector<int64_t> index, shape;
      for (auto [i, extent, reduced] : llvm::zip(at, domain.extents, domain.reduced)) {
        point.push_back(scalar.index(i));
        if (!reduced)
          index.push_back(i), shape.push_back(extent);
      }
      auto load = [&](unsigned operand, ValueRange where) -> Value {
        ArrayRef<int64_t> source = graph::shapeOf(loop->getOperand(operand));
        // An index that depends on data may have any value.
        SmallVector<SmallVector<int64_t>> candidates;
        SmallVector<int64_t> sizes;
        for (auto [value, size] : llvm::zip(where, source)) {
          IntegerAttr known;
          SmallVector<int64_t> &list = candidates.emplace_back();
          if (matchPattern(value, m_Constant(&known)))
            list.push_back(known.getInt());
          else
            for (int64_t i = 0; i < size; ++i)
              list.push_back(i);
          sizes.push_back(list.size());
        }
        forEachIndex(sizes, [&](ArrayRef<int64_t> choice) {
          SmallVector<int64_t> element;
          for (auto [list, c] : llvm::zip(candidates, choice))
            element.push_back(list[c]);
          for (auto [i, size] : llvm::zip(element, source))
            if (i < 0 || i >= size)
              return; // guarded by a selection
          visit(linear(index, shape), operand, linear(element, source));
        });
        Type type = ScalarBuilder::scalarType(graph::tensorType(loop->getOperand(operand)).getElementType());
        return block.addArgument(type, loop.getLoc());
      };
      loop.emitStep(scalar, point, loop.emitInit(scalar), load);
      block.dropAllReferences();
    });
  }

  /// Whether every element in row r of the result (of `count` rows) reads the operand in row r only.
  bool holds(LoopInterface loop, unsigned operand, int64_t count) {
    int64_t results = graph::tensorType(loop->getResult(0)).getNumElements();
    int64_t elements = graph::tensorType(loop->getOperand(operand)).getNumElements();
    bool ok = true;
    forEachRead(loop, [&](int64_t result, unsigned read, int64_t element) {
      ok &= read != operand || result / (results / count) == element / (elements / count);
    });
    return ok;
  }
};

TEST_F(Rows, OfShapesAndSets) {
  EXPECT_EQ(rowsOfShape({}), (RowSet{1}));
  EXPECT_EQ(rowsOfShape({4, 1, 6}), (RowSet{1, 4, 24}));
  EXPECT_EQ(intersect({1, 2, 8, 24}, {1, 4, 8, 48}), (RowSet{1, 8}));
}

TEST_F(Rows, AreTheCommonLeadingFactors) {
  auto rows = [&](const char *arguments, const char *operation, unsigned operand = 0) {
    return rowsThrough(parse({arguments, operation}), operand);
  };
  EXPECT_EQ(rows("%x: tensor<2x4x6xf32>", "%0 = graph.relu %x : tensor<2x4x6xf32>"), (RowSet{1, 2, 8, 48}));
  EXPECT_EQ(rows("%x: tensor<2x4x6xf32>", "%0 = graph.reshape %x : (tensor<2x4x6xf32>) -> tensor<8x6xf32>"),
            (RowSet{1, 2, 8, 48}));
  EXPECT_EQ(rows("%x: tensor<8x6xf32>", "%0 = graph.reshape %x : (tensor<8x6xf32>) -> tensor<6x8xf32>"), (RowSet{1}));
  EXPECT_EQ(rows("%x: tensor<2x4x6xf32>",
                 "%0 = graph.transpose %x {permutation = array<i64: 0, 2, 1>} : (tensor<2x4x6xf32>) -> "
                 "tensor<2x6x4xf32>"),
            (RowSet{1, 2}));
  EXPECT_EQ(rows("%x: tensor<2x4x6xf32>",
                 "%0 = graph.reduce_sum %x {dims = array<i64: 2>} : (tensor<2x4x6xf32>) -> tensor<2x4xf32>"),
            (RowSet{1, 2, 8}));
  EXPECT_EQ(rows("%x: tensor<2x4x6xf32>",
                 "%0 = graph.reduce_sum %x {dims = array<i64: 0>} : (tensor<2x4x6xf32>) -> tensor<4x6xf32>"),
            (RowSet{1}));
  EXPECT_EQ(
      rows("%x: tensor<6xf32>", "%0 = graph.broadcast %x {dims = array<i64: 1>} : (tensor<6xf32>) -> tensor<4x6xf32>"),
      (RowSet{1}));
}

/// For every number of rows that the rule allows, row r of the result reads only row r of the operand.
TEST_F(Rows, HoldForEveryReadOfEveryLowering) {
  int checked = 0, promised = 0;
  for (const Sample &sample : samples()) {
    SCOPED_TRACE(sample.operation);
    Operation *op = parse(sample);
    ASSERT_TRUE(op);
    auto loop = dyn_cast<LoopInterface>(op);
    if (!loop)
      continue;
    ++checked;
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      for (int64_t count : rowsThrough(op, i)) {
        EXPECT_TRUE(holds(loop, i, count)) << count << " rows of operand " << i;
        promised += count > 1;
      }
  }
  EXPECT_GT(checked, 60);
  EXPECT_GT(promised, 100);
}

/// Numbers of rows that the rule does not allow fail the test above: it would detect a wrong rule.
TEST_F(Rows, DoNotHoldBeyondTheRule) {
  auto loop = [&](const char *arguments, const char *operation) {
    return cast<LoopInterface>(parse({arguments, operation}));
  };
  auto transpose = loop("%x: tensor<2x4x6xf32>", "%0 = graph.transpose %x {permutation = array<i64: 0, 2, 1>} : "
                                                 "(tensor<2x4x6xf32>) -> tensor<2x6x4xf32>");
  EXPECT_TRUE(holds(transpose, 0, 2));
  EXPECT_FALSE(holds(transpose, 0, 8));
  auto column = loop("%x: tensor<4x6xf32>",
                     "%0 = graph.reduce_sum %x {dims = array<i64: 0>} : (tensor<4x6xf32>) -> tensor<6xf32>");
  EXPECT_FALSE(holds(column, 0, 2));
  auto gather = loop("%x: tensor<4x6xf32>, %i: tensor<4xi64>", "%0 = graph.gather %x, %i {dim = 0 : i64} : "
                                                               "(tensor<4x6xf32>, tensor<4xi64>) -> tensor<4x6xf32>");
  EXPECT_FALSE(holds(gather, 0, 4));
  EXPECT_TRUE(holds(gather, 1, 4));
}

} // namespace
