#include "step/InPlace.h"

#include "llvm/ADT/SmallSet.h"

using namespace divisi;
using namespace divisi::step;

/// The extents of the loops over a result's elements, without those of 1.
static llvm::SmallVector<int64_t> loopsOf(const Block::Op &op) {
  return llvm::to_vector(llvm::make_filter_range(op.extents, [](int64_t extent) { return extent != 1; }));
}

bool step::writesOnlyWhereItReads(const Block &block, llvm::ArrayRef<int> ops, llvm::function_ref<bool(int)> isStage,
                                  int64_t rows, int result, int input) {
  const Block::Value &target = block.value(result), &source = block.value(input);
  if (source.elements != target.elements || source.bytes != target.bytes || target.op < 0)
    return false;
  const bool eachAlone = rows == target.elements; // each row is one element
  // The input, and values that depend on it or are materialized: reading these at another index needs another pass.
  llvm::SmallSet<int, 16> dependent;
  dependent.insert(input);
  for (int number : ops) {
    const Block::Op &op = block.op(number);
    if (block.isConstant(number))
      continue;
    if (!op.isPointwise())
      return false;
    // All materialized values with the same loops share one pass over the elements, in which every read precedes the
    // writes.
    const bool stage = isStage(number);
    if (stage && (block.elements(number) != target.elements ||
                  (!eachAlone && loopsOf(op) != loopsOf(block.op(target.op)))))
      return false;
    for (auto [i, operand] : llvm::enumerate(op.operands)) {
      if (!dependent.contains(operand))
        continue;
      if (op.rows[i].back() != target.elements)
        return false;
      dependent.insert(op.results[0]);
    }
    if (stage)
      dependent.insert(op.results[0]);
  }
  return true;
}
