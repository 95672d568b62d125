#include "dialects/Graph/GraphBuilder.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::graph;
using Values = SmallVector<Value>;
using B = GraphBuilder;

#define GET_OP_CLASSES
#include "dialects/Graph/Random.cpp.inc"

void GraphDialect::addRandom() {
  addOperations<
#define GET_OP_LIST
#include "dialects/Graph/Random.cpp.inc"
      >();
}

LogicalResult RandomUniformOp::verify() {
  for (Value operand : getOperands())
    if (tensorType(operand).getRank() != 0)
      return emitOpError("constraint 1: expected scalar operands, got ") << operand.getType();
  if (auto strides = getStrides(); strides && (int64_t)strides->size() != tensorType(getResult()).getRank())
    return emitOpError("constraint 2: expected one stride per dimension, got ") << strides->size();
  if (!isa<FloatType>(tensorType(getResult()).getElementType()))
    return emitOpError("constraint 3: draws floating-point numbers, got ") << getResult().getType();
  return success();
}
void RandomUniformOp::setRandomness(ValueRange values) {
  if (!getKeepsSeed())
    getSeedMutable().assign(values[0]);
  getStepMutable().assign(values[1]);
}
Values RandomUniformOp::buildGradient(B &, ArrayRef<Value>) { return Values(getNumOperands()); }
static SmallVector<int64_t> rowMajor(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d > 1; --d)
    strides[d - 2] = strides[d - 1] * shape[d - 1];
  return strides;
}
/// The elements keep the random numbers that they have in the smaller tensor.
void RandomUniformOp::growResult(unsigned, RankedTensorType type) {
  if (!getStrides())
    setStrides(rowMajor(shapeOf(getResult())));
  getResult().setType(type);
}
/// Sets the shard's strides and first index in the global tensor. A piece of a piece counts from the first index that the
/// larger one has.
Value RandomUniformOp::makeLocal(dist::LocalContext &context) {
  B b(context.builder(), getLoc());
  auto type = tensorType(getResult());
  SmallVector<int64_t> strides = getStrides() ? SmallVector<int64_t>(*getStrides()) : rowMajor(context.globalShape(0));
  Value offset = getOffset();
  for (int64_t d = 0; d < type.getRank(); ++d)
    if (dist::AxesRef axes = context.factorAxes()[d]; !axes.empty())
      offset = b.addMaybe(offset, b.scale(context.pieceIndex(axes), type.getDimSize(d) * strides[d]));
  if (offset == getOffset())
    return {};
  return b.op<RandomUniformOp>(type, getSeed(), getStep(), offset, getStreamAttr(),
                               b.getBuilder().getDenseI64ArrayAttr(strides), getKeepsSeedAttr());
}
dist::ShardingRule RandomUniformOp::getShardingRule() {
  dist::ShardingRule rule;
  dist::ShardingRule::Dims dims;
  for (auto [d, size] : llvm::enumerate(shapeOf(getResult())))
    dims.push_back({rule.addFactor("d" + std::to_string(d), size)});
  rule.operands.resize(getNumOperands());
  for (auto [i, operand] : llvm::enumerate(getOperands()))
    rule.operands[i].resize(tensorType(operand).getRank());
  rule.results = {dims};
  return rule;
}

LogicalResult DropoutOp::verify() {
  if (getRandomness().size() != 0 && getRandomness().size() != 2)
    return emitOpError("constraint 1: needs both seed and step, or neither");
  double ratio = getRatio().convertToDouble();
  if (!(ratio >= 0 && ratio < 1))
    return emitOpError("constraint 2: ratio must be in [0, 1), got ") << ratio;
  return success();
}

/// x / (1 - ratio) where the random number is at least ratio, else 0.
static Value drop(B &b, DropoutOp op, Value x) {
  if (op.getRandomness().empty())
    return x;
  double ratio = op.getRatio().convertToDouble();
  auto type = RankedTensorType::get(shapeOf(x), b.getBuilder().getF32Type());
  Value random = b.op<RandomUniformOp>(type, op.getRandomness()[0], op.getRandomness()[1], Value(), op.getStreamAttr(),
                                       DenseI64ArrayAttr(), UnitAttr());
  Value scaled = b.scale(x, 1 / (1 - ratio));
  return b.keepWhere(b.compareConst(Predicate::ge, random, ratio), scaled);
}

Values DropoutOp::decompose(B &b) { return {drop(b, *this, getX())}; }
Values DropoutOp::buildGradient(B &b, ArrayRef<Value> gradients) {
  Values result(getNumOperands());
  if (gradients[0])
    result[0] = drop(b, *this, gradients[0]);
  return result;
}
Values DropoutOp::buildEvaluation(B &) { return {getX()}; }
dist::ShardingRule DropoutOp::getShardingRule() {
  auto rule = dist::ShardingRule::elementwise(*this);
  // a shard would draw the numbers of the first shard; random_uniform knows its position, dropout does not
  for (auto &factor : rule.factors)
    factor.whole = !getRandomness().empty();
  for (unsigned i = 1; i < getNumOperands(); ++i)
    rule.operands[i].assign(tensorType(getOperand(i)).getRank(), {});
  return rule;
}
