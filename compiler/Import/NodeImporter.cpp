#include "compiler/Import/NodeImporter.h"

#include "llvm/ADT/SmallVectorExtras.h"

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using llvm::StringRef;

//===- Inputs -------------------------------------------------------------===//

const Item &NodeImporter::item(int64_t index) const {
  if (!has(index))
    fail("input ", index, " is missing");
  const Item *item = scope.find(node.input(index));
  if (!item)
    fail("input '", node.input(index), "' is not defined before this node");
  return *item;
}

Value NodeImporter::in(int64_t index) const {
  Value tensor = item(index).tensor;
  if (!tensor)
    fail("input '", node.input(index), "' is not a tensor, or its operator does not compute it");
  return tensor;
}

GraphBuilder::Values NodeImporter::all() const {
  Values values;
  for (int64_t i = 0; i < std::max<int64_t>(1, numInputs()); ++i)
    values.push_back(in(i));
  return values;
}

const llvm::SmallVector<Value> &NodeImporter::sequence(int64_t index) const {
  if (!item(index).sequence)
    fail("input '", node.input(index), "' is not a sequence");
  return *item(index).sequence;
}

//===- Attributes ---------------------------------------------------------===//

const onnx::AttributeProto *NodeImporter::find(StringRef attribute) const {
  for (const auto &candidate : node.attribute())
    if (candidate.name() == attribute)
      return &candidate;
  return nullptr;
}

/// Files by old exporters have no attribute types. Every type then matches.
static bool isType(const onnx::AttributeProto &attribute, onnx::AttributeProto::AttributeType type) {
  return attribute.type() == type || attribute.type() == onnx::AttributeProto::UNDEFINED;
}
static const onnx::AttributeProto *checkType(const onnx::AttributeProto *attribute,
                                             onnx::AttributeProto::AttributeType type, const char *expected) {
  if (attribute && !isType(*attribute, type))
    fail("attribute '", attribute->name(), "' is not ", expected);
  return attribute;
}

int64_t NodeImporter::integer(StringRef attribute, int64_t missing) const {
  const auto *found = checkType(find(attribute), onnx::AttributeProto::INT, "an integer");
  return found ? found->i() : missing;
}
double NodeImporter::number(StringRef attribute, double missing) const {
  const auto *found = checkType(find(attribute), onnx::AttributeProto::FLOAT, "a number");
  return found ? found->f() : missing;
}
std::string NodeImporter::text(StringRef attribute, StringRef missing) const {
  const auto *found = checkType(find(attribute), onnx::AttributeProto::STRING, "a string");
  return found ? found->s() : missing.str();
}
std::optional<CheckedBuilder::Shape> NodeImporter::integers(StringRef attribute) const {
  const auto *found = checkType(find(attribute), onnx::AttributeProto::INTS, "a list of integers");
  if (!found)
    return std::nullopt;
  return Shape(found->ints().begin(), found->ints().end());
}
std::optional<llvm::SmallVector<double>> NodeImporter::floats(StringRef attribute) const {
  const auto *found = checkType(find(attribute), onnx::AttributeProto::FLOATS, "a list of numbers");
  if (!found)
    return std::nullopt;
  return llvm::SmallVector<double>(found->floats().begin(), found->floats().end());
}
std::optional<llvm::SmallVector<std::string>> NodeImporter::strings(StringRef attribute) const {
  const auto *found = checkType(find(attribute), onnx::AttributeProto::STRINGS, "a list of strings");
  if (!found)
    return std::nullopt;
  return llvm::SmallVector<std::string>(found->strings().begin(), found->strings().end());
}
const onnx::TensorProto *NodeImporter::tensor(StringRef attribute) const {
  const auto *found = checkType(find(attribute), onnx::AttributeProto::TENSOR, "a tensor");
  return found && found->has_t() ? &found->t() : nullptr;
}
Type NodeImporter::elementAttr(StringRef attribute, Type missing) const {
  int64_t code = integer(attribute, 0);
  return code == 0 ? missing : elementTypeOf(&model.context, code);
}

const onnx::GraphProto &NodeImporter::graph(StringRef attribute) const {
  const auto *found = checkType(find(attribute), onnx::AttributeProto::GRAPH, "a graph");
  if (!found || !found->has_g())
    fail("it has no graph '", attribute, "'");
  return found->g();
}

Results NodeImporter::subgraph(StringRef attribute, llvm::ArrayRef<Item> inputs, const std::string &prefix) {
  return model.importSubgraph(graph(attribute), inputs, scope, prefix.empty() ? scope.prefix : prefix);
}

//===- Constants ----------------------------------------------------------===//

std::optional<DenseElementsAttr> NodeImporter::known(Value value) {
  if (auto initial = model.initialValue(value))
    return initial;
  return model.evaluate(value);
}

std::optional<double> NodeImporter::knownNumber(Value value) {
  while (isa_and_nonnull<BroadcastOp, ReshapeOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  auto numbers = known(value);
  return numbers ? numberOfAll(*numbers) : std::nullopt;
}

DenseElementsAttr NodeImporter::constantInput(int64_t index, StringRef what) {
  if (auto value = known(in(index)))
    return *value;
  bool selects = node.op_type() == "NonZero" || node.op_type() == "Compress"; // what x[mask] becomes
  fail("its ", what, " ('", node.input(index), "') is not a constant: shapes must be known when compiling",
       selects ? "; instead of x[mask] and x[mask] = y, multiply by the mask, or take torch.where or the loss's "
                 "ignore_index"
               : "");
}

int64_t NodeImporter::integerInput(int64_t index, StringRef what) {
  Shape values = integersInput(index, what);
  if (values.size() != 1)
    fail("its ", what, " is not a scalar");
  return values[0];
}

double NodeImporter::numberInput(int64_t index, StringRef what) {
  auto values = numbersOf(constantInput(index, what));
  if (values.size() != 1)
    fail("its ", what, " is not a scalar");
  return values[0];
}

std::optional<CheckedBuilder::Shape> NodeImporter::integersFrom(StringRef attribute, int64_t index) {
  if (has(index))
    return integersInput(index, attribute);
  return integers(attribute);
}

//===- Dimensions ---------------------------------------------------------===//

int64_t NodeImporter::axis(int64_t value, int64_t rank) const {
  int64_t dim = value < 0 ? value + rank : value;
  if (value < -rank || dim < 0 || dim >= rank)
    fail("axis ", value, " is out of range for a tensor of rank ", rank);
  return dim;
}

CheckedBuilder::Shape NodeImporter::axes(Shape values, int64_t rank) const {
  for (int64_t &value : values)
    value = axis(value, rank);
  llvm::sort(values);
  if (std::adjacent_find(values.begin(), values.end()) != values.end())
    fail("an axis is named twice");
  return values;
}

Value NodeImporter::integerTensor(llvm::ArrayRef<int64_t> values, Dims shape) {
  auto made = type(shape, i64());
  return constant(values.empty() ? DenseElementsAttr::get(made, llvm::ArrayRef<Attribute>()) : DenseElementsAttr::get(made, values));
}

Value NodeImporter::stack(llvm::ArrayRef<Value> values, int64_t axis) {
  llvm::SmallVector<Value> joined;
  for (Value value : values) {
    Shape shape(shapeOf(value));
    shape.insert(shape.begin() + axis, 1);
    joined.push_back(reshape(value, shape));
  }
  return concat(joined, axis);
}

Value NodeImporter::clamp(Value x, Value low, Value high) {
  if (low)
    x = select(compare(Predicate::lt, x, low), low, x);
  return high ? select(compare(Predicate::gt, x, high), high, x) : x;
}

NodeImporter::Shape NodeImporter::reducedDims() {
  int64_t rank = rankOf(in(0));
  auto given = integersFrom("axes", 1);
  if (given && !given->empty())
    return axes(*given, rank);
  return integer("noop_with_empty_axes", 0) ? Shape() : dimRange(0, rank);
}

Value NodeImporter::length(Value sums, double power) {
  auto rootOf = [&](Value x) { return power == 0.5 ? op<SqrtOp>(x) : op<PowOp>(x, splatLike(x, power)); };
  if (!isFloat(sums))
    return rootOf(sums);
  Value zero = compareTo(Predicate::eq, sums, 0);
  Value root = rootOf(select(zero, splatLike(sums, 1), sums));
  return select(zero, splatLike(sums, 0), root);
}
