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

Values RandomUniformOp::buildGradient(B &, ArrayRef<Value>) { return Values(2); }
/// Every element can be computed anywhere; a partitioner passes the offset of the local part.
dist::ShardingRule RandomUniformOp::getShardingRule() {
  dist::ShardingRule rule;
  dist::ShardingRule::Dims dims;
  for (auto [d, size] : llvm::enumerate(shapeOf(getResult())))
    dims.push_back({rule.addFactor("d" + std::to_string(d), size)});
  rule.operands.resize(2);
  for (auto [i, operand] : llvm::enumerate(getOperands()))
    rule.operands[i].resize(tensorType(operand).getRank());
  rule.results = {dims};
  return rule;
}

LogicalResult DropoutOp::verify() {
  if (getRandomness().size() != 0 && getRandomness().size() != 2)
    return emitOpError("needs both seed and step, or neither");
  double ratio = getRatio().convertToDouble();
  if (!(ratio >= 0 && ratio < 1))
    return emitOpError("ratio must be in [0, 1), got ") << ratio;
  return success();
}

/// x / (1 - ratio) where the random number is at least ratio, else 0.
static Value drop(B &b, DropoutOp op, Value x) {
  if (op.getRandomness().empty())
    return x;
  double ratio = op.getRatio().convertToDouble();
  auto type = RankedTensorType::get(shapeOf(x), b.getBuilder().getF32Type());
  Value random = b.op<RandomUniformOp>(type, op.getRandomness()[0], op.getRandomness()[1], op.getStream());
  return b.keepWhere(b.compareConst(Predicate::ge, random, ratio), b.scale(x, 1 / (1 - ratio)));
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
  for (unsigned i = 1; i < getNumOperands(); ++i)
    rule.operands[i].assign(tensorType(getOperand(i)).getRank(), {});
  return rule;
}
