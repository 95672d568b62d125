#pragma once
#include "compiler/Import/ModelImporter.h"

namespace divisi::compiler {

/// Imports one node: gives its handler the inputs and attributes, and a builder at its location.
class NodeImporter : public CheckedBuilder {
public:
  NodeImporter(ModelImporter &model, const onnx::NodeProto &node, const std::string &name, mlir::Location loc,
               int64_t opset, const Scope &scope)
      : CheckedBuilder(model.builder, loc, model.lastError), model(model), node(node), name(name), opset(opset),
        scope(scope) {}

  ModelImporter &model;
  const onnx::NodeProto &node;
  const std::string &name;
  const int64_t opset; // version of the node's domain

  // Inputs.
  int64_t numInputs() const { return node.input_size(); }
  bool has(int64_t index) const { return index < node.input_size() && !node.input(index).empty(); }
  /// An input tensor that must be present.
  Value in(int64_t index) const;
  /// An input tensor; null if it is absent.
  Value maybe(int64_t index) const { return has(index) ? in(index) : Value(); }
  /// All inputs; there must be at least one, and none may be absent.
  Values all() const;
  /// An input that is a tensor or a sequence.
  const Item &item(int64_t index) const;
  const llvm::SmallVector<Value> &sequence(int64_t index) const;
  /// What a name means for the graphs of the node; null if it is defined inside of them, or not at all.
  const Item *named(llvm::StringRef outer) const { return scope.find(outer); }
  /// Whether the node has this output.
  bool wants(int64_t index) const { return index < node.output_size() && !node.output(index).empty(); }

  // Attributes.
  bool hasAttr(llvm::StringRef attribute) const { return find(attribute); }
  int64_t integer(llvm::StringRef attribute, int64_t missing) const;
  double number(llvm::StringRef attribute, double missing) const;
  std::string text(llvm::StringRef attribute, llvm::StringRef missing) const;
  std::optional<Shape> integers(llvm::StringRef attribute) const;
  std::optional<llvm::SmallVector<double>> floats(llvm::StringRef attribute) const;
  std::optional<llvm::SmallVector<std::string>> strings(llvm::StringRef attribute) const;
  const onnx::TensorProto *tensor(llvm::StringRef attribute) const;
  /// An element type in an attribute, or `missing`.
  mlir::Type elementAttr(llvm::StringRef attribute, mlir::Type missing) const;
  /// A graph in an attribute; it must be there.
  const onnx::GraphProto &graph(llvm::StringRef attribute) const;
  /// The results of the graph in an attribute, imported in place. Names of its nodes begin with `prefix`; without one,
  /// they are those in the graph.
  Results subgraph(llvm::StringRef attribute, llvm::ArrayRef<Item> inputs, const std::string &prefix = "");

  // Constants.
  /// The value of an input that must be known during import; fails with a message otherwise.
  mlir::DenseElementsAttr constantInput(int64_t index, llvm::StringRef what);
  /// A value if it is known during import. An initializer is then used as a constant.
  std::optional<mlir::DenseElementsAttr> known(Value value);
  /// The number that all elements are, if it is known during import.
  std::optional<double> knownNumber(Value value);
  Shape integersInput(int64_t index, llvm::StringRef what) { return integersOf(constantInput(index, what)); }
  /// A constant of int64 values.
  Value integerTensor(llvm::ArrayRef<int64_t> values, Dims shape);
  int64_t integerInput(int64_t index, llvm::StringRef what);
  double numberInput(int64_t index, llvm::StringRef what);
  /// Integers from an attribute in old opsets or from an input in newer ones.
  std::optional<Shape> integersFrom(llvm::StringRef attribute, int64_t index);

  /// A dimension between 0 and rank - 1; a negative `value` counts from the end.
  int64_t axis(int64_t value, int64_t rank) const;
  int64_t axisAttr(int64_t missing, int64_t rank) const { return axis(integer("axis", missing), rank); }
  Shape axes(Shape values, int64_t rank) const;

  // Indices (Indices.cpp).
  /// int64 indices into a dimension of this size, without negative ones. Adds the check that they are in [-size, size).
  Value index(Value indices, int64_t size) { return index(indices, Dims(size)); }
  /// The same for index vectors: the last dimension of `indices` has one component for each size.
  Value index(Value indices, Dims sizes);
  /// The size of a dimension if the numbers are positions along it, which are less than this size; null for other
  /// numbers.
  static std::optional<int64_t> sizeOfPositions(Value numbers);
  /// Adds the check that numbers are in [low, high): it fails now, when an input is read, or after a step. `what` names one.
  void limit(Value numbers, int64_t low, int64_t high, llvm::StringRef what = "index");
  /// int64 labels: the class, or a negative number for ignored labels. Adds the check that the others are in [0,
  /// classes).
  Value labels(Value labels, int64_t classes, int64_t ignored);

  // Small compositions.
  Value compareTo(graph::Predicate predicate, Value x, double value) { return compareConst(predicate, x, value); }
  Value both(Value a, Value b) { return op<graph::AndOp>(a, b); }
  /// x, with values below `low` or above `high` replaced by these; the gradient is zero where x is replaced.
  Value clamp(Value x, Value low, Value high);
  Value clamp(Value x, double low, double high) {
    Value most = splatLike(x, high);
    return clamp(x, splatLike(x, low), most);
  }
  /// A binary operation over all inputs, from left to right.
  template <typename OpT> Value fold() {
    Value result;
    for (Value value : all())
      result = result ? binary<OpT>(result, value) : value;
    return result;
  }
  /// The reduced dimensions of the first input: from an attribute in old opsets, from the second input in newer ones;
  /// by default all, or none.
  Shape reducedDims();
  /// x, through which no gradient flows back.
  Value withoutGradient(Value x) { return op<graph::StraightThroughOp>(splatLike(x, 0), x); }
  /// A power below 1 of sums of powers. Where a sum is zero, the gradient is zero, as in PyTorch's norms, and not infinite.
  Value length(Value sums, double power = 0.5);
  /// Tensors of one shape side by side along a new dimension.
  Value stack(llvm::ArrayRef<Value> values, int64_t axis);
  /// Broadcasts a vector to a shape along one dimension.
  Value along(Value vector, Dims shape, int64_t dim) { return broadcast(vector, shape, {dim}); }

private:
  const onnx::AttributeProto *find(llvm::StringRef attribute) const;
  const Scope &scope;
};

} // namespace divisi::compiler
