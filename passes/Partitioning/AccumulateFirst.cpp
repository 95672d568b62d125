#include "dialects/Dist/Tasks.h"
#include "dialects/Graph/GraphBuilder.h"
#include "passes/Partitioning/Passes.h"

using namespace mlir;

namespace divisi::partitioning {
#define GEN_PASS_DEF_ACCUMULATEFIRSTPASS
#include "passes/Partitioning/Passes.h.inc"

namespace {

Attribute stageOf(Value value) {
  Operation *op = value.getDefiningOp();
  return op ? op->getAttr(dist::names::stage) : Attribute();
}

/// Whether an operation communicates one value, of which sums may be taken before as well as behind it.
bool isLinearCommunication(Operation *op) {
  if (auto reduce = dyn_cast<dist::AllReduceOp>(op))
    return reduce.getInputs().size() == 1 && reduce.getKind() == dist::ReductionKind::sum;
  if (auto scatter = dyn_cast<dist::ReduceScatterOp>(op))
    return scatter.getKind() == dist::ReductionKind::sum;
  return isa<dist::TransferOp>(op);
}

/// Whether a sum of an operation's operands over the microbatches is worth it: of communication, or of a sum of values of
/// several stages.
bool isApart(Operation *op) {
  if (!op || !op->hasOneUse())
    return false;
  if (auto add = dyn_cast<graph::AddOp>(op))
    return stageOf(add.getLhs()) && stageOf(add.getRhs()) && stageOf(add.getLhs()) != stageOf(add.getRhs());
  return isLinearCommunication(op);
}

struct AccumulateFirstPass : impl::AccumulateFirstPassBase<AccumulateFirstPass> {
  void runOnOperation() final {
    SmallVector<graph::AccumulateOp> sums(getOperation().getOps<graph::AccumulateOp>());
    while (!sums.empty()) {
      graph::AccumulateOp sum = sums.pop_back_val();
      if (!sum->hasAttr("combine"))
        move(sum, sums);
    }
  }

private:
  /// Moves a sum over the microbatches in front of the operation that makes its operand. New sums are added to `sums`.
  static void move(graph::AccumulateOp sum, SmallVector<graph::AccumulateOp> &sums) {
    Operation *producer = sum.getX().getDefiningOp();
    auto cast = dyn_cast_or_null<graph::CastOp>(producer); // sums of 16-bit values are f32
    if (cast && cast->hasOneUse())
      producer = cast.getX().getDefiningOp();
    else
      cast = {};
    if (!isApart(producer))
      return;
    OpBuilder builder(sum);
    dist::StageListener stages;
    builder.setListener(&stages);
    graph::GraphBuilder b(builder, sum.getLoc());
    IRMapping mapping;
    for (Value operand : producer->getOperands()) {
      stages.stage = stageOf(operand);
      Value mine = cast ? b.cast(operand, graph::tensorType(cast.getResult()).getElementType()) : operand;
      auto part = graph::AccumulateOp::create(builder, sum.getLoc(), mine);
      mapping.map(operand, part.getResult());
      sums.push_back(part);
    }
    stages.stage = isa<graph::AddOp>(producer) ? sum->getAttr(dist::names::stage) : producer->getAttr(dist::names::stage);
    Operation *moved = builder.clone(*producer, mapping);
    auto type = graph::tensorType(moved->getResult(0));
    moved->getResult(0).setType(RankedTensorType::get(type.getShape(), graph::tensorType(sum.getX()).getElementType()));
    sum.getResult().replaceAllUsesWith(moved->getResult(0));
    sum.erase();
    if (cast)
      cast.erase();
    producer->erase();
  }
};
} // namespace
} // namespace divisi::partitioning
