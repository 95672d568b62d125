#include "dialects/Graph/Neutral.h"
#include "passes/Training/ValidRows.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::graph;
using namespace divisi::training;

/// Whether the compiler has added the loss.
static bool knowsRows(func::FuncOp loss) {
  for (unsigned i = 0; i < loss.getNumArguments(); ++i)
    if (auto name = loss.getArgAttrOfType<StringAttr>(i, names::scalar); name && name.getValue() == "rows")
      return true;
  for (unsigned i = 0; i < loss.getNumResults(); ++i)
    if (loss.getResultAttr(i, "graph.count"))
      return true;
  return false;
}

ValidRows::ValidRows(StepFunction &step, OpBuilder &builder, func::FuncOp loss, IRMapping &mapping)
    : step(step), builder(builder), mapping(mapping) {
  if (knowsRows(loss) || places.emplace(loss).batch() <= 1)
    places.reset();
  else
    sums.emplace(*places);
}

ValidRows::~ValidRows() {
  for (auto &block : pieces) // one may use another's values
    block->dropAllReferences();
}

Value ValidRows::rows() {
  if (!rowsArgument) {
    auto name = builder.getNamedAttr(names::scalar, builder.getStringAttr("rows"));
    auto type = RankedTensorType::get({}, builder.getI64Type());
    rowsArgument = step.addArgument(type, builder.getDictionaryAttr(name), builder.getUnknownLoc());
  }
  return rowsArgument;
}

Value ValidRows::isValid(GraphBuilder &b, Value x, SamplePlace place) {
  const int64_t size = shapeOf(x)[place.dim], inner = size / (place.outer * places->batch());
  Value sample = b.iota({size}, 0);
  if (inner > 1)
    sample = b.div(sample, b.splatLike(sample, (double)inner));
  if (place.outer > 1)
    sample = b.op<RemOp>(sample, b.splatLike(sample, (double)places->batch()));
  Value valid = b.compare(Predicate::lt, sample, b.broadcast(rows(), {size}, {}));
  return b.broadcast(valid, shapeOf(x), {place.dim});
}

void ValidRows::clone(Operation &op, llvm::function_ref<void(Operation &)> cloneOne) {
  if (clonePieces(op, cloneOne))
    return;
  before(op);
  cloneOne(op);
  after(op);
}

bool ValidRows::clonePieces(Operation &op, llvm::function_ref<void(Operation &)> cloneOne) {
  auto composite = dyn_cast<DecomposeInterface>(op);
  if (!composite || !places || !places->needsWhole(&op) || isa<EvaluationInterface>(op))
    return false;
  Block &block = *pieces.emplace_back(std::make_unique<Block>());
  OpBuilder inside(op.getContext());
  inside.setInsertionPointToEnd(&block);
  GraphBuilder b(inside, op.getLoc());
  SmallVector<Value> results = composite.decompose(b);
  if (results.empty())
    return false;
  for (Operation &piece : block) {
    places->add(piece);
    clone(piece, cloneOne);
  }
  for (auto [result, value] : llvm::zip(op.getResults(), results)) {
    mapping.map(result, mapping.lookup(value));
    sums->setAlike(result, value);
  }
  return true;
}

Value ValidRows::withoutMissing(GraphBuilder &b, Value x, SamplePlace place, dist::Reduction reduction) {
  Value valid = isValid(b, x, place);
  Attribute none = neutralOf(reduction, tensorType(x).getElementType());
  return b.select(valid, x, b.constant(DenseElementsAttr::get(tensorType(x), none)));
}

void ValidRows::before(Operation &op) {
  auto *combination = places ? places->combines(&op) : nullptr;
  if (!combination)
    return;
  GraphBuilder b(builder, op.getLoc());
  for (auto [i, place] : combination->places) {
    Value operand = op.getOperand(i), x = mapping.lookup(operand);
    whole.push_back({operand, x});
    mapping.map(operand, withoutMissing(b, x, place, combination->kind));
  }
}

void ValidRows::after(Operation &op) {
  if (!places)
    return;
  for (auto [operand, x] : llvm::reverse(whole)) // an operand may be there twice
    mapping.map(operand, x);
  whole.clear();
  auto division = sums->add(op);
  if (!division)
    return;
  GraphBuilder b(builder, op.getLoc());
  Value quotient = mapping.lookup(op.getResult(0));
  Type type = tensorType(quotient).getElementType(), wide = type.isF64() ? type : b.getBuilder().getF32Type();
  Value number = b.cast(rows(), wide);
  const auto batch = (double)places->batch();
  auto factor = [&](TermCount count) {
    Value there = count.of(b, number);
    return b.div(b.splatLike(there, count.of(batch)), there);
  };
  Value times = factor(division->by);
  if (division->before)
    times = b.div(times, factor(*division->before));
  Value x = b.cast(quotient, wide);
  mapping.map(op.getResult(0), b.cast(b.mul(x, b.broadcast(times, shapeOf(x), {})), type));
}

AccuracyInterface ValidRows::classification(AccuracyInterface op) {
  if (auto copy = mapping.lookup(op->getResult(0)).getDefiningOp<AccuracyInterface>())
    return copy;
  GraphBuilder b(builder, op.getLoc());
  IRMapping masked = mapping;
  Value scores = op->getOperand(0), labels = op->getOperand(1);
  for (SamplePlace place : places->of(scores))
    if (place.dim == 1) // of the classes
      masked.map(scores, withoutMissing(b, masked.lookup(scores), place, dist::Reduction::max));
  for (SamplePlace place : places->of(op->getResult(0)))
    if (place.dim >= 0) {
      Value x = masked.lookup(labels), valid = isValid(b, x, place);
      masked.map(labels, b.select(valid, x, b.splatLike(x, -1)));
    }
  return cast<AccuracyInterface>(builder.clone(*op, masked));
}
