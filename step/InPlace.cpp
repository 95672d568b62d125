#include "step/InPlace.h"

#include "llvm/ADT/DenseSet.h"

using namespace divisi;
using namespace divisi::step;

/// The extents of the loops over a result's elements, without those of 1.
static llvm::SmallVector<int64_t> loopsOf(const Block::Op &op) {
  return llvm::to_vector(llvm::make_filter_range(op.extents, [](int64_t extent) { return extent != 1; }));
}

InPlace::InPlace(const Block &block, llvm::ArrayRef<int> ops, llvm::function_ref<bool(int)> isStage, int64_t rows)
    : block(block), rows(rows) {
  for (int number : ops) {
    if (block.isConstant(number))
      continue;
    const Block::Op &op = block.op(number);
    members.push_back({&op, isStage(number)});
    if (members.back().stage && !pass)
      pass = &op;
    onePass = onePass && op.isPointwise() && (!members.back().stage || isOfOnePass(op, block.elements(number)));
  }
}

/// Whether an operation's result is computed in the pass of the first stage. All values with the same loops share one
/// pass over the elements, in which every read precedes the writes.
bool InPlace::isOfOnePass(const Block::Op &op, int64_t elements) const {
  const int64_t ofPass = block.value(pass->results[0]).elements;
  const bool eachAlone = rows == ofPass; // each row is one element
  return elements == ofPass && (eachAlone || loopsOf(op) == loopsOf(*pass));
}

bool InPlace::mayOverwrite(int result, int input) {
  const Block::Value &target = block.value(result), &source = block.value(input);
  if (!onePass || source.elements != target.elements || source.bytes != target.bytes || target.op < 0 ||
      (pass && !isOfOnePass(block.op(target.op), target.elements)))
    return false;
  auto [it, fresh] = reads.try_emplace(input);
  if (fresh)
    it->second = readsOnlyWhereItWrites(input);
  return it->second;
}

/// What depends on the input, or is in memory, cannot be read at another element: that takes another pass.
bool InPlace::readsOnlyWhereItWrites(int input) const {
  const int64_t elements = block.value(input).elements;
  llvm::SmallDenseSet<int, 64> dependent = {input};
  for (auto [op, stage] : members) {
    bool depends = stage;
    for (auto [operand, through] : llvm::zip(op->operands, op->rows))
      if (dependent.contains(operand)) {
        if (through.back() != elements || block.value(operand).elements != elements) // a scalar that was repeated has more
          return false;
        depends = true;
      }
    if (depends)
      dependent.insert(op->results[0]);
  }
  return true;
}
