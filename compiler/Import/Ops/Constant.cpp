#include "compiler/Import/Operators.h"

#include <cmath>
#include <numbers>

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;
using Shape = CheckedBuilder::Shape;

static Results importConstant(N &n) {
  if (const auto *tensor = n.tensor("value"))
    return {n.constant(n.model.reader.attribute(*tensor))};
  if (n.hasAttr("value_int"))
    return {n.integerTensor(n.integer("value_int", 0), {})};
  if (n.hasAttr("value_float"))
    return {n.splatOf({}, n.f32(), n.number("value_float", 0))};
  if (auto values = n.integers("value_ints"))
    return {n.integerTensor(*values, {(int64_t)values->size()})};
  if (auto values = n.floats("value_floats"))
    return {n.numbers({(int64_t)values->size()}, n.f32(), *values)};
  fail("it has no value that is a tensor of numbers");
}

static Results importConstantOfShape(N &n) {
  Shape shape = n.integersInput(0, "shape");
  const auto *value = n.tensor("value");
  if (!value)
    return {n.splatOf(shape, n.f32(), 0)};
  auto element = n.model.reader.attribute(*value);
  if (element.getNumElements() != 1)
    fail("its value is not one element");
  return {n.broadcastTo(n.reshape(n.constant(element), {}), shape)};
}

static Results importEyeLike(N &n) {
  Value x = n.in(0);
  if (n.rankOf(x) != 2)
    fail("its input ", shapeText(shapeOf(x)), " is not a matrix");
  int64_t k = std::clamp(n.integer("k", 0), -maxElements, maxElements);
  Value place = n.addConst(n.iota(shapeOf(x), 0), k);
  Value diagonal = n.compare(Predicate::eq, n.iota(shapeOf(x), 1), place);
  return {n.cast(diagonal, n.elementAttr("dtype", n.elementOf(x)))};
}

/// start + i * delta; the number of elements must be known during import. torch.export writes arange(1.0, 9) with numbers of
/// several types: the result then has the type of one that is no integer.
static Results importRange(N &n) {
  Type element = n.elementOf(n.in(0));
  for (int64_t i : {1, 2})
    if (Type other = n.elementOf(n.in(i)); other != element && isa<IntegerType>(element))
      element = isa<IntegerType>(other) ? (Type)n.i64() : other;
  Value start = n.cast(n.in(0), element), delta = n.cast(n.in(2), element);
  double count;
  if (isa<IntegerType>(element)) {
    int64_t from = n.integerInput(0, "start"), to = n.integerInput(1, "limit"), by = n.integerInput(2, "delta");
    count = by == 0 ? NAN : std::ceil(((double)to - (double)from) / (double)by);
  } else {
    count = std::ceil((n.numberInput(1, "limit") - n.numberInput(0, "start")) / n.numberInput(2, "delta"));
  }
  if (!(count < (double)maxElements))
    fail("it would have ", count, " elements");
  Shape shape{count > 0 ? (int64_t)count : 0};
  Value index = n.cast(n.iota(shape, 0), element);
  auto scalar = [&](Value v) { return n.broadcast(n.reshape(v, {}), shape, {}); };
  Value offset = n.mul(index, scalar(delta));
  return {n.add(scalar(start), offset)};
}

/// The indices of the nonzero elements of a known value. That of a single number that is not zero is a column without rows.
static Results importNonZero(N &n) {
  auto values = n.constantInput(0, "input");
  auto shape = shapeOf(n.in(0));
  SmallVector<Shape> columns(shape.size());
  int64_t count = 0;
  for (auto [flat, value] : llvm::enumerate(numbersOf(values))) {
    if (value == 0)
      continue;
    ++count;
    int64_t rest = flat;
    for (int64_t d = (int64_t)shape.size() - 1; d >= 0; --d) {
      columns[d].push_back(rest % shape[d]);
      rest /= shape[d];
    }
  }
  Shape all;
  for (const Shape &column : columns)
    llvm::append_range(all, column);
  return {n.integerTensor(all, {(int64_t)shape.size(), count})};
}

//===- Windows ------------------------------------------------------------===//

/// a0 - a1 * cos(2 pi i / size) + a2 * cos(4 pi i / size).
static Value cosineWindow(N &n, double a0, double a1, double a2) {
  int64_t size = n.integerInput(0, "size");
  if (size < 0 || size > 1 << 24)
    fail("its size is ", size);
  double period = n.integer("periodic", 1) ? size : std::max<int64_t>(1, size - 1);
  SmallVector<double> values;
  for (int64_t i = 0; i < size; ++i) {
    double angle = 2 * std::numbers::pi * i / period;
    values.push_back(a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle));
  }
  return n.numbers({size}, n.elementAttr("output_datatype", n.f32()), values);
}
static Results importHannWindow(N &n) { return {cosineWindow(n, 0.5, 0.5, 0)}; }
static Results importHammingWindow(N &n) { return {cosineWindow(n, 25.0 / 46, 21.0 / 46, 0)}; }
static Results importBlackmanWindow(N &n) { return {cosineWindow(n, 0.42, 0.5, 0.08)}; }

llvm::ArrayRef<Operator> divisi::compiler::constantOperators() {
  static constexpr Operator rows[] = {
      {"BlackmanWindow", 17, newest, importBlackmanWindow},
      {"Constant", 1, newest, importConstant},
      {"ConstantOfShape", 9, newest, importConstantOfShape},
      {"EyeLike", 9, newest, importEyeLike},
      {"HammingWindow", 17, newest, importHammingWindow},
      {"HannWindow", 17, newest, importHannWindow},
      {"NonZero", 9, newest, importNonZero},
      {"Range", 11, newest, importRange},
  };
  return rows;
}
