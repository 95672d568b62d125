#include "dialects/Graph/GraphBuilder.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::graph;
using Values = SmallVector<Value>;
using B = GraphBuilder;

#define GET_OP_CLASSES
#include "dialects/Graph/Shape.cpp.inc"

void GraphDialect::addShape() {
  addOperations<
#define GET_OP_LIST
#include "dialects/Graph/Shape.cpp.inc"
      >();
}

static SmallVector<int64_t> allDims(int64_t rank) { return llvm::to_vector(llvm::seq<int64_t>(0, rank)); }

//===- constant, iota -----------------------------------------------------===//

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }
Values ConstantOp::buildGradient(B &, ArrayRef<Value>) { return {}; }
dist::ShardingRule ConstantOp::getShardingRule() {
  if (!getValue().isSplat())
    return dist::ShardingRule("->*", *this);
  auto rule = dist::ShardingRule::gather(*this, {});
  rule.zero = matchPattern(getResult(), m_Zero()) || matchPattern(getResult(), m_AnyZeroFloat());
  return rule;
}
void ConstantOp::growResult(unsigned, RankedTensorType type) {
  setValueAttr(cast<SplatElementsAttr>(getValue()).resizeSplat(type)); // other constants have no factors
  getResult().setType(type);
}
Value ConstantOp::makeLocal(dist::LocalContext &context) {
  auto type = tensorType(getResult());
  auto splat = dyn_cast<SplatElementsAttr>(getValue());
  if (!splat || splat.getType() == type)
    return {};
  return ConstantOp::create(context.builder(), getLoc(), splat.resizeSplat(type));
}

LogicalResult IotaOp::verify() {
  int64_t rank = tensorType(getResult()).getRank();
  if (getDim() >= (uint64_t)rank)
    return emitOpError("constraint 1: dim ") << getDim() << " is out of range for rank " << rank;
  return success();
}
Values IotaOp::buildGradient(B &, ArrayRef<Value>) { return {}; }
dist::ShardingRule IotaOp::getShardingRule() { return dist::ShardingRule::gather(*this, {}); }
/// Shifts local indices by the first index of the shard.
Value IotaOp::makeLocal(dist::LocalContext &context) {
  dist::AxesRef axes = context.factorAxes()[getDim()];
  if (axes.empty())
    return {};
  B b(context.builder(), getLoc());
  auto type = tensorType(getResult());
  Value first = b.scale(context.pieceIndex(axes), type.getDimSize(getDim()));
  Value local = b.iota(type.getShape(), getDim(), type.getElementType());
  return b.add(local, b.broadcast(b.cast(first, type.getElementType()), type.getShape(), {}));
}

//===- broadcast ----------------------------------------------------------===//

LogicalResult BroadcastOp::verify() {
  ArrayRef<int64_t> from = shapeOf(getX()), to = shapeOf(getResult()), dims = getDims();
  if (dims.size() != from.size())
    return emitOpError("constraint 1: expected one dim per operand dimension, got ")
           << dims.size() << " for rank " << from.size();
  for (auto [i, d] : llvm::enumerate(dims)) {
    if (d < 0 || d >= (int64_t)to.size() || (i && d <= dims[i - 1]))
      return emitOpError("constraint 2: dims must be increasing and below the result's rank, got ") << d;
    if (from[i] != 1 && from[i] != to[d])
      return emitOpError("constraint 3: cannot broadcast size ") << from[i] << " to " << to[d];
  }
  if (tensorType(getX()).getElementType() != tensorType(getResult()).getElementType())
    return emitOpError("constraint 4: may not change the element type");
  return success();
}

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getType())
    return getX();
  if (auto splat = dyn_cast_or_null<SplatElementsAttr>(adaptor.getX()))
    return splat.resizeSplat(cast<ShapedType>(getType()));
  return {};
}

Values BroadcastOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  Value g = gradients[0];
  if (!g)
    return {Value()};
  ArrayRef<int64_t> from = shapeOf(getX()), to = shapeOf(getResult());
  SmallVector<int64_t> summed;
  for (int64_t d : allDims(to.size())) {
    auto it = llvm::find(getDims(), d);
    if (it == getDims().end() || (from[it - getDims().begin()] == 1 && to[d] != 1))
      summed.push_back(d);
  }
  return {b.reshape(b.reduceSum(g, summed), from)};
}

dist::ShardingRule BroadcastOp::getShardingRule() {
  ArrayRef<int64_t> from = shapeOf(getX()), to = shapeOf(getResult());
  SmallVector<int64_t> source(to.size(), -1);
  for (auto [i, d] : llvm::enumerate(getDims()))
    if (from[i] == to[d])
      source[d] = i;
  return dist::ShardingRule::gather(*this, source);
}

//===- reshape, transpose -------------------------------------------------===//

LogicalResult ReshapeOp::verify() {
  auto from = tensorType(getX()), to = tensorType(getResult());
  if (from.getNumElements() != to.getNumElements())
    return emitOpError("constraint 1: cannot reshape ")
           << from.getNumElements() << " elements to " << to.getNumElements();
  if (from.getElementType() != to.getElementType())
    return emitOpError("constraint 2: may not change the element type");
  return success();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getBarrier())
    return {};
  if (getX().getType() == getType())
    return getX();
  if (auto inner = getX().getDefiningOp<ReshapeOp>(); inner && !inner.getBarrier()) {
    setOperand(inner.getX());
    return getResult();
  }
  if (auto dense = dyn_cast_or_null<DenseElementsAttr>(adaptor.getX()))
    return dense.reshape(cast<ShapedType>(getType()));
  return {};
}

Values ReshapeOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  return {gradients[0] ? b.reshape(gradients[0], shapeOf(getX())) : Value()};
}
dist::ShardingRule ReshapeOp::getShardingRule() { return dist::ShardingRule::reshape(*this); }

LogicalResult TransposeOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  auto type = tensorType(adaptor.getX());
  SmallVector<int64_t> shape;
  llvm::SmallBitVector seen(type.getRank());
  for (int64_t p : adaptor.getPermutation()) {
    if (p < 0 || p >= type.getRank() || seen.test(p))
      return emitOptionalError(loc, "constraint 1: permutation must name each of ", type.getRank(), " dimensions once");
    seen.set(p);
    shape.push_back(type.getDimSize(p));
  }
  if (!seen.all())
    return emitOptionalError(loc, "constraint 1: permutation must name each of ", type.getRank(), " dimensions once");
  types.push_back(RankedTensorType::get(shape, type.getElementType()));
  return success();
}

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  if (llvm::equal(getPermutation(), llvm::seq<int64_t>(0, getPermutation().size())))
    return getX();
  if (auto splat = dyn_cast_or_null<SplatElementsAttr>(adaptor.getX()))
    return splat.resizeSplat(cast<ShapedType>(getType()));
  if (auto inner = getX().getDefiningOp<TransposeOp>()) {
    SmallVector<int64_t> combined;
    for (int64_t p : getPermutation())
      combined.push_back(inner.getPermutation()[p]);
    setOperand(inner.getX());
    setPermutation(combined);
    return getResult();
  }
  return {};
}

Values TransposeOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  SmallVector<int64_t> inverse(getPermutation().size());
  for (auto [i, p] : llvm::enumerate(getPermutation()))
    inverse[p] = i;
  return {gradients[0] ? b.transpose(gradients[0], inverse) : Value()};
}
dist::ShardingRule TransposeOp::getShardingRule() { return dist::ShardingRule::gather(*this, getPermutation()); }

//===- slice, pad, concat -------------------------------------------------===//

/// Verifies that the elements start + i * step, for i < `inner`, are in `outer`.
static LogicalResult verifyWindow(Operation *op, ArrayRef<int64_t> inner, ArrayRef<int64_t> outer,
                                  ArrayRef<int64_t> starts, ArrayRef<int64_t> steps) {
  if (inner.size() != outer.size() || starts.size() != outer.size() || steps.size() != outer.size())
    return op->emitOpError("constraint 1: expected attributes and shapes of one rank");
  for (auto [d, size] : llvm::enumerate(inner)) {
    if (steps[d] == 0)
      return op->emitOpError("constraint 2: step must not be zero in dimension ") << d;
    if (size == 0)
      continue;
    int64_t last;
    if (llvm::MulOverflow(size - 1, steps[d], last) || llvm::AddOverflow(last, starts[d], last) || starts[d] < 0 ||
        last < 0 || starts[d] >= outer[d] || last >= outer[d])
      return op->emitOpError("constraint 3: reaches outside of dimension ") << d << " of size " << outer[d];
  }
  return success();
}

/// Dimensions that are not changed have a factor, the others none.
static dist::ShardingRule windowRule(Operation *op) {
  ArrayRef<int64_t> from = shapeOf(op->getOperand(0)), to = shapeOf(op->getResult(0));
  dist::ShardingRule rule;
  rule.linear = dist::Linear::movement;
  dist::ShardingRule::Dims source(from.size()), target(to.size());
  for (size_t d = 0; d < to.size(); ++d)
    if (from[d] == to[d]) {
      int factor = rule.addFactor("d" + std::to_string(d), to[d]);
      source[d] = {factor};
      target[d] = {factor};
    }
  rule.operands.assign(op->getNumOperands(), source);
  rule.results = {target};
  return rule;
}

LogicalResult SliceOp::verify() {
  return verifyWindow(*this, shapeOf(getResult()), shapeOf(getX()), getStarts(), getSteps());
}
OpFoldResult SliceOp::fold(FoldAdaptor adaptor) {
  bool unit = llvm::all_of(getSteps(), [](int64_t s) { return s == 1; });
  if (unit && getX().getType() == getType())
    return getX();
  if (auto splat = dyn_cast_or_null<SplatElementsAttr>(adaptor.getX()))
    return splat.resizeSplat(cast<ShapedType>(getType()));
  return {};
}
Values SliceOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  if (!gradients[0])
    return {Value()};
  // A negative step places the elements in reverse; pad has the same starts and steps.
  return {b.op<PadOp>(tensorType(getX()), gradients[0], getStarts(), getSteps(), llvm::APFloat(0.0))};
}
/// Reversed dimensions keep their size but have no factor.
dist::ShardingRule SliceOp::getShardingRule() {
  auto rule = windowRule(*this);
  for (auto [d, step] : llvm::enumerate(getSteps()))
    if (step < 0)
      for (int factor : rule.results[0][d])
        rule.factors[factor].whole = true;
  return rule;
}

LogicalResult PadOp::verify() {
  return verifyWindow(*this, shapeOf(getX()), shapeOf(getResult()), getLow(), getSteps());
}
Values PadOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  return {gradients[0] ? b.slice(gradients[0], getLow(), shapeOf(getX()), getSteps()) : Value()};
}
/// Padding with zeros only moves elements. Another value would be counted once for each partial sum.
dist::ShardingRule PadOp::getShardingRule() {
  auto rule = windowRule(*this);
  rule.linear = getValue().isZero() ? dist::Linear::all : dist::Linear::no;
  for (auto [d, step] : llvm::enumerate(getSteps()))
    if (step < 0)
      for (int factor : rule.results[0][d])
        rule.factors[factor].whole = true;
  return rule;
}

LogicalResult ConcatOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  if (adaptor.getInputs().empty())
    return emitOptionalError(loc, "constraint 1: concat needs at least one input");
  auto first = tensorType(adaptor.getInputs()[0]);
  SmallVector<int64_t> shape(first.getShape());
  int64_t dim = adaptor.getDim();
  if (dim < 0 || dim >= first.getRank())
    return emitOptionalError(loc, "constraint 2: concat dim ", dim, " is out of range for rank ", first.getRank());
  shape[dim] = 0;
  for (Value input : adaptor.getInputs()) {
    auto type = tensorType(input);
    if (type.getRank() != first.getRank() || type.getElementType() != first.getElementType())
      return emitOptionalError(loc, "constraint 3: concat inputs differ in rank or element type");
    for (int64_t d = 0; d < type.getRank(); ++d)
      if (d != dim && type.getDimSize(d) != first.getDimSize(d))
        return emitOptionalError(loc, "constraint 4: concat inputs differ in dimension ", d);
    shape[dim] += type.getDimSize(dim);
  }
  types.push_back(RankedTensorType::get(shape, first.getElementType()));
  return success();
}
Values ConcatOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  Values parts(getInputs().size());
  int64_t start = 0;
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    int64_t size = shapeOf(input)[getDim()];
    if (gradients[0])
      parts[i] = b.sliceDim(gradients[0], getDim(), start, size);
    start += size;
  }
  return parts;
}
dist::ShardingRule ConcatOp::getShardingRule() {
  dist::ShardingRule rule;
  rule.linear = dist::Linear::movement;
  dist::ShardingRule::Dims dims;
  for (auto [d, size] : llvm::enumerate(shapeOf(getResult()))) {
    dims.emplace_back();
    if ((int64_t)d != (int64_t)getDim())
      dims[d].push_back(rule.addFactor("d" + std::to_string(d), size));
  }
  rule.operands.assign(getInputs().size(), dims);
  rule.results = {dims};
  return rule;
}
