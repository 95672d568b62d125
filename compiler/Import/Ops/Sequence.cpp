#include "compiler/Import/Operators.h"

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;
using Shape = CheckedBuilder::Shape;

// Sequences are lists of tensors during import; the module does not contain them.

/// Splits along an axis into segments of given sizes, of one size, or of size 1 without the dimension.
static Results importSplitToSequence(N &n) {
  Value x = n.in(0);
  int64_t axis = n.axisAttr(0, n.rankOf(x)), size = shapeOf(x)[axis];
  Shape sizes;
  bool squeeze = false;
  if (!n.has(1)) {
    n.model.countSlices(size);
    sizes.assign(size, 1);
    squeeze = n.integer("keepdims", 1) == 0;
  } else if (n.rankOf(n.in(1)) == 0) {
    int64_t each = n.integerInput(1, "split");
    if (each < 1)
      fail("cannot split dimension ", axis, " of size ", size, " into parts of ", each);
    n.model.countSlices(llvm::divideCeil(size, each));
    for (int64_t start = 0; start < size; start += each)
      sizes.push_back(std::min(each, size - start));
  } else {
    sizes = n.integersInput(1, "split");
    n.model.countSlices(sizes.size());
  }
  SmallVector<Value> parts;
  int64_t start = 0;
  for (int64_t part : sizes) {
    if (part < 0 || part > size - start)
      fail("its parts do not fit into dimension ", axis, " of size ", size);
    Value value = n.sliceDim(x, axis, start, part);
    Shape shape(shapeOf(value));
    if (squeeze)
      shape.erase(shape.begin() + axis);
    parts.push_back(n.reshape(value, shape));
    start += part;
  }
  if (start != size)
    fail("its parts do not fill dimension ", axis, " of size ", size);
  return {Item::ofSequence(parts)};
}

/// A position in a list of `size`; negative ones count from the end.
static int64_t position(N &n, int64_t input, int64_t size, int64_t missing) {
  int64_t value = n.has(input) ? n.integerInput(input, "position") : missing;
  int64_t from = value < 0 ? value + size : value;
  if (from < 0 || from > size)
    fail("position ", value, " is out of range for a sequence of ", size);
  return from;
}

static Results importSequenceAt(N &n) {
  const auto &list = n.sequence(0);
  int64_t at = position(n, 1, list.size(), 0);
  if (at >= (int64_t)list.size())
    fail("position ", at, " is out of range for a sequence of ", list.size());
  return {list[at]};
}
static Results importSequenceConstruct(N &n) { return {Item::ofSequence(n.all())}; }
static Results importSequenceEmpty(N &) { return {Item::ofSequence({})}; }
static Results importSequenceInsert(N &n) {
  SmallVector<Value> list = n.sequence(0);
  list.insert(list.begin() + position(n, 2, list.size(), list.size()), n.in(1));
  return {Item::ofSequence(list)};
}
static Results importSequenceErase(N &n) {
  SmallVector<Value> list = n.sequence(0);
  int64_t at = position(n, 1, list.size(), (int64_t)list.size() - 1);
  if (at >= (int64_t)list.size())
    fail("position ", at, " is out of range for a sequence of ", list.size());
  list.erase(list.begin() + at);
  return {Item::ofSequence(list)};
}
static Results importSequenceLength(N &n) {
  int64_t length = n.sequence(0).size();
  return {n.integerTensor(length, {})};
}

static Results importConcatFromSequence(N &n) {
  SmallVector<Value> list = n.sequence(0);
  if (list.empty())
    fail("its sequence is empty");
  bool newAxis = n.integer("new_axis", 0);
  int64_t rank = n.rankOf(list[0]) + newAxis, axis = n.axisAttr(0, rank);
  for (Value value : list)
    if (newAxis && n.rankOf(value) + 1 != rank)
      fail("its tensors differ in rank");
  return {newAxis ? n.stack(list, axis) : n.concat(list, axis)};
}

//===- Optionals ----------------------------------------------------------===//

/// Whether an optional is there is known during import.
static Results importOptionalHasElement(N &n) {
  bool isThere = n.has(0) && (n.item(0).tensor || n.item(0).sequence);
  return {n.splatOf({}, n.getBuilder().getI1Type(), isThere)};
}
static Results importOptional(N &n) { return {n.has(0) ? n.item(0) : Item()}; }
static Results importOptionalGetElement(N &n) { return {n.item(0)}; }

llvm::ArrayRef<Operator> divisi::compiler::sequenceOperators() {
  static constexpr Operator rows[] = {
      {"ConcatFromSequence", 11, newest, importConcatFromSequence},
      {"Optional", 15, newest, importOptional},
      {"OptionalGetElement", 15, newest, importOptionalGetElement},
      {"OptionalHasElement", 15, newest, importOptionalHasElement},
      {"SequenceAt", 11, newest, importSequenceAt},
      {"SequenceConstruct", 11, newest, importSequenceConstruct},
      {"SequenceEmpty", 11, newest, importSequenceEmpty},
      {"SequenceErase", 11, newest, importSequenceErase},
      {"SequenceInsert", 11, newest, importSequenceInsert},
      {"SequenceLength", 11, newest, importSequenceLength},
      {"SplitToSequence", 11, newest, importSplitToSequence},
  };
  return rows;
}
