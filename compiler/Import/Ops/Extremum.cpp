// Greatest and least values, whose gradients at ties PyTorch defines call by call.
#include "compiler/Import/ExportNotes.h"
#include "compiler/Import/Operators.h"

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;
using Shape = CheckedBuilder::Shape;

//===- Clip ---------------------------------------------------------------===//

/// A bound of Clip. A known bound becomes a constant, even if it is an initializer.
static Value clipBound(N &n, int64_t index, Value x) {
  Value bound = n.maybe(index);
  if (!bound)
    return {};
  if (auto value = n.known(bound); value && value->getNumElements() == 1)
    return n.broadcastTo(n.reshape(n.constant(*value), {}), shapeOf(x));
  return n.broadcastTo(bound, shapeOf(x));
}

/// Whether Clip is PyTorch's hardtanh or relu6, whose gradient at the bounds is zero; that of clamp is not. Files
/// without notes do not say it: there only the bounds of relu6 do.
static bool isHardTanh(N &n, Value low, Value high) {
  const std::string target = CallNotes(n.node).target;
  const StringRef call = target;
  if (!call.empty())
    return call.starts_with("aten.hardtanh") || call.starts_with("aten.relu6");
  return n.knownNumber(low) == 0 && n.knownNumber(high) == 6;
}

static Results clip(N &n, Value x, Value low, Value high) {
  if (!low || !high || !n.isFloat(x) || !isHardTanh(n, low, high))
    return {n.clamp(x, low, high)};
  x = n.select(n.compare(Predicate::le, x, low), low, x);
  return {n.select(n.compare(Predicate::ge, x, high), high, x)};
}

static Results importClip(N &n) {
  Value x = n.in(0);
  Value high = clipBound(n, 2, x);
  return clip(n, x, clipBound(n, 1, x), high);
}
/// Before opset 11, the bounds were attributes.
static Results importClip6(N &n) {
  Value x = n.in(0);
  Value low = n.hasAttr("min") ? n.splatLike(x, n.number("min", 0)) : Value();
  Value high = n.hasAttr("max") ? n.splatLike(x, n.number("max", 0)) : Value();
  return clip(n, x, low, high);
}

//===- Max, Min -----------------------------------------------------------===//

/// Of two equal values each gets half of the gradient, as in PyTorch's maximum. Where torch.export writes clamp as Max
/// and Min, the first value gets all of it.
template <typename OpT> static Results extremumOf(N &n) {
  constexpr bool greatest = std::is_same_v<OpT, MaxOp>;
  if (n.numInputs() == 2 && n.isFloat(n.in(0)) && StringRef(CallNotes(n.node).target).starts_with("aten.clamp")) {
    auto shape = broadcastShape({shapeOf(n.in(0)), shapeOf(n.in(1))});
    Value x = n.broadcastTo(n.in(0), shape), bound = n.broadcastTo(n.in(1), shape);
    return {n.clamp(x, greatest ? bound : Value(), greatest ? Value() : bound)};
  }
  return {n.fold<OpT>()};
}

//===- ReduceMax, ReduceMin -----------------------------------------------===//

/// Where values tie, they share the gradient, as in PyTorch's amax; in max along a dimension the first one gets it.
/// Compares booleans as integers.
template <typename OpT, typename ArgT> static Results reduced(N &n) {
  Value x = n.in(0);
  const Shape dims = n.reducedDims();
  Value result;
  if (n.elementOf(x).isInteger(1))
    result = n.compareTo(Predicate::gt, n.reduce<OpT>(n.cast(x, n.getBuilder().getI32Type()), dims), 0);
  else
    result = n.reduce<OpT>(x, dims);
  const std::string target = CallNotes(n.node).target;
  const StringRef call = target;
  if (dims.size() == 1 && n.isFloat(x) && shapeOf(x)[dims[0]] > 0 && !n.model.options.forwardOnly &&
      (call.starts_with("aten.max.dim") || call.starts_with("aten.min.dim"))) {
    Value first = n.op<ArgT>(x, dims[0], false);
    Value place = n.broadcastAlong(first, shapeOf(x), dims);
    Value isFirst = n.compare(Predicate::eq, n.iota(shapeOf(x), dims[0]), place);
    result = n.op<StraightThroughOp>(n.reduceSum(n.keepWhere(isFirst, x), dims), result);
  }
  return {n.integer("keepdims", 1) ? n.keepDims(result, shapeOf(x), dims) : result};
}

llvm::ArrayRef<Operator> divisi::compiler::extremumOperators() {
  static constexpr Operator rows[] = {
      {"Clip", 6, 10, importClip6},
      {"Clip", 11, newest, importClip},
      {"Max", 6, newest, extremumOf<MaxOp>},
      {"Min", 6, newest, extremumOf<MinOp>},
      {"ReduceMax", 1, newest, reduced<ReduceMaxOp, ArgMaxOp>},
      {"ReduceMin", 1, newest, reduced<ReduceMinOp, ArgMinOp>},
  };
  return rows;
}
