// Checks of indices. A known value is checked when compiling, an input when it is read, and a computed value by a
// result of the step, which the runtime checks after the step.
#include "compiler/Import/NodeImporter.h"

#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using llvm::StringRef;

/// Distances from the middle of an index's range are capped at this number: twice the distance, and a sign, are then
/// exact as doubles (53 bits).
static constexpr int64_t farthest = int64_t(1) << 51;

/// Whether a cast preserves every integer.
static bool keepsNumbers(CastOp op) {
  auto from = dyn_cast<IntegerType>(tensorType(op.getX()).getElementType());
  auto to = dyn_cast<IntegerType>(tensorType(op.getResult()).getElementType());
  if (!from || !to)
    return false;
  bool fromUnsigned = from.isUnsigned() || from.getWidth() == 1;
  if (fromUnsigned == to.isUnsigned())
    return from.getWidth() <= to.getWidth();
  return fromUnsigned && from.getWidth() < to.getWidth();
}

/// The value that numbers come from if they are only moved, repeated or widened.
static Value sourceOf(Value numbers) {
  for (;;) {
    Operation *op = numbers.getDefiningOp();
    auto cast = dyn_cast_or_null<CastOp>(op);
    if (!isa_and_nonnull<ReshapeOp, TransposeOp, BroadcastOp>(op) && !(cast && keepsNumbers(cast)))
      return numbers;
    numbers = op->getOperand(0);
  }
}

std::optional<int64_t> NodeImporter::sizeOfPositions(Value numbers) {
  numbers = sourceOf(numbers);
  Operation *op = numbers.getDefiningOp();
  auto top = dyn_cast_or_null<TopKOp>(op);
  if (isa_and_nonnull<ArgMaxOp, ArgMinOp>(op) || (top && numbers == top.getIndices()))
    return shapeOf(op->getOperand(0))[op->getAttrOfType<IntegerAttr>("dim").getInt()];
  if (auto iota = dyn_cast_or_null<IotaOp>(op))
    return shapeOf(numbers)[iota.getDim()];
  return std::nullopt;
}

static bool isUnsignedInteger(Value x) {
  auto integer = dyn_cast<IntegerType>(tensorType(x).getElementType());
  return integer && (integer.isUnsigned() || integer.getWidth() == 1);
}

/// Where known numbers are from: " in 'name'", the name of an initializer or of the node that has them.
static std::string placeOf(Value numbers, const Signature::Argument *argument) {
  auto loc = dyn_cast<NameLoc>(numbers.getLoc());
  bool isNamed = loc && isa_and_nonnull<ConstantOp>(numbers.getDefiningOp());
  return argument ? " in '" + argument->name + "'" : isNamed ? " in '" + loc.getName().str() + "'" : "";
}

static void checkNumber(int64_t number, int64_t low, int64_t high, const std::string &place, StringRef what = "index") {
  if (number < low || number >= high)
    fail(what, " ", number, place, " is out of range: it takes ", low, " to ", high - 1);
}

void ModelImporter::addCheck(Value values, int64_t low, int64_t high, const std::string &node, CheckedBuilder &b) {
  for (const Check &known : checks)
    if (known.values == values && known.low == low && known.high == high)
      return;
  Value from = b.addConst(b.cast(values, b.i64()), -(double)(low + (high - low) / 2));
  Value last = b.splatLike(from, (double)farthest);
  from = b.op<MinOp>(b.op<MaxOp>(from, b.splatLike(from, -(double)farthest)), last);
  Value twice = b.op<ShiftLeftOp>(from, b.splatLike(from, 1)), sign = b.op<ShiftRightOp>(from, b.splatLike(from, 63));
  Value largest = b.reduceMax(b.op<XorOp>(twice, sign), dimRange(0, b.rankOf(from)));
  std::string name = llvm::json::fixUTF8(node);
  int64_t others = llvm::count_if(checks, [&](const Check &known) { return known.node == name; });
  checks.push_back({values, low, high, name, largest, others});
}

void ModelImporter::addCheckResults() {
  for (const Check &check : checks) {
    std::string name = check.others ? textOf(check.node, " (", check.others + 1, ")") : check.node;
    NamedAttribute entries[] = {builder.getNamedAttr("name", builder.getStringAttr(name)),
                                builder.getNamedAttr("range", builder.getI64ArrayAttr({check.low, check.high}))};
    arguments->addResult(check.largest, "graph.check", builder.getDictionaryAttr(entries));
  }
}

void NodeImporter::limit(Value numbers, int64_t low, int64_t high, StringRef what) {
  Value source = sourceOf(numbers);
  auto positions = sizeOfPositions(source);
  if (tensorType(source).getNumElements() == 0 || (positions && low <= 0 && *positions <= high))
    return;
  Signature::Argument *argument = model.signature().find(source);
  if (argument && argument->role == Signature::Role::input) {
    if (model.options.forwardOnly)
      return;
    auto [first, last] = argument->range.value_or(std::pair(low, high));
    argument->range = {std::max(first, low), std::min(last, high)};
  } else if (auto values = known(source)) {
    const std::string place = placeOf(source, argument);
    for (int64_t number : integersOf(*values))
      checkNumber(number, low, high, place, what);
  } else if (!model.options.forwardOnly) {
    model.addCheck(source, low, high, name, *this);
  }
}

Value NodeImporter::labels(Value labels, int64_t classes, int64_t ignored) {
  Value source = labels;
  while (isa_and_nonnull<ReshapeOp, CastOp>(source.getDefiningOp()))
    source = source.getDefiningOp()->getOperand(0);
  Signature::Argument *argument = model.signature().find(source);
  bool isInput = argument && argument->role == Signature::Role::input && !model.options.forwardOnly;
  if (isInput) {
    argument->isLabel = true;
    argument->padding = ignored;
  }
  bool isRead = isInput && sourceOf(labels) == source; // an input whose padding is always valid
  labels = cast(labels, i64());
  Value none = compareTo(Predicate::eq, labels, ignored);
  limit(isRead ? labels : select(none, splatLike(labels, 0), labels), 0, classes);
  return ignored >= 0 && ignored < classes ? select(none, splatLike(labels, -1), labels) : labels;
}

Value NodeImporter::index(Value indices, Dims sizes) {
  if (!isa<IntegerType>(elementOf(indices)))
    fail("indices are not integers");
  size_t count = sizes.size();
  if (auto values = model.evaluate(indices)) {
    Shape numbers = integersOf(*values);
    const std::string place = placeOf(sourceOf(indices), nullptr);
    for (auto [i, number] : llvm::enumerate(numbers)) {
      int64_t size = sizes[i % count];
      checkNumber(number, -size, size, place);
      number += number < 0 ? size : 0;
    }
    auto to = type(shapeOf(indices), i64());
    return constant(numbers.empty() ? DenseElementsAttr::get(to, ArrayRef<Attribute>())
                                    : DenseElementsAttr::get(to, ArrayRef<int64_t>(numbers)));
  }
  Value source = sourceOf(indices);
  bool isNegative = !isUnsignedInteger(source) && !sizeOfPositions(source); // whether some may be negative
  bool alike = llvm::all_equal(sizes);
  for (size_t k = 0; k < (alike ? 1 : count); ++k) {
    Value some = alike ? indices : sliceDim(indices, rankOf(indices) - 1, k, 1);
    limit(some, isNegative ? -sizes[k] : 0, sizes[k]);
  }
  indices = cast(indices, i64());
  if (!isNegative)
    return indices;
  Value behind = alike ? addConst(indices, sizes[0]) : add(indices, broadcastTo(this->indices(sizes), shapeOf(indices)));
  return select(compareTo(Predicate::lt, indices, 0), behind, indices);
}
