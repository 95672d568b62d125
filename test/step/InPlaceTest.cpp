// When a kernel may write a result over an input: only if no later pass of it reads that input.
#include "step/InPlace.h"

#include "gtest/gtest.h"

#include <numeric>

using namespace divisi::step;

namespace {

/// An elementwise operation of a block; returns its result.
int add(Block &block, std::vector<int> operands, int64_t elements, std::vector<RowSet> rows) {
  Block::Op op;
  op.flops = 1;
  if (elements > 1)
    op.extents = {elements};
  op.reduced.assign(op.extents.size(), false);
  op.operands.assign(operands.begin(), operands.end());
  op.rows.assign(rows.begin(), rows.end());
  op.results = {block.addValue(elements, 4 * elements)};
  block.addOp(op);
  return op.results[0];
}

bool mayOverwrite(const Block &block, std::vector<int> stages, int64_t rows, int result, int input) {
  std::vector<int> ops(block.size());
  std::iota(ops.begin(), ops.end(), 0);
  return InPlace(block, ops, [&](int op) { return std::count(stages.begin(), stages.end(), op) > 0; }, rows)
      .mayOverwrite(result, input);
}

TEST(InPlace, ElementsThatAreReadWhereTheyAreWritten) {
  Block block;
  const int x = block.addValue(8, 32);
  const int first = add(block, {x}, 8, {{1, 8}}), second = add(block, {first, x}, 8, {{1, 8}, {1, 8}});
  EXPECT_TRUE(mayOverwrite(block, {0, 1}, 8, first, x));
  EXPECT_TRUE(mayOverwrite(block, {0, 1}, 8, second, x));
}

/// A single number in memory that is repeated, and of whose repetition one element is read again: no longer at the same
/// place, so that it takes a pass of its own (codegen/Emit/Clusters.cpp), behind the writes of the first.
TEST(InPlace, ANumberThatIsRepeatedBetweenTwoStages) {
  Block block;
  const int x = block.addValue(1, 4), step = block.addValue(1, 4);
  const int rate = add(block, {step}, 1, {{1}});
  const int repeated = add(block, {rate}, 2, {{1}}), picked = add(block, {repeated}, 1, {{1}});
  const int ratio = add(block, {x, picked}, 1, {{1}, {1}});
  EXPECT_FALSE(mayOverwrite(block, {0, 3}, 1, rate, x));
  EXPECT_FALSE(mayOverwrite(block, {0, 3}, 1, ratio, step));
}
} // namespace
