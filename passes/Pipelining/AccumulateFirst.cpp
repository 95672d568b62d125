#include "dialects/Dist/StageAxes.h"
#include "dialects/Dist/Tasks.h"
#include "dialects/Graph/GraphBuilder.h"
#include "passes/Pipelining/Passes.h"
#include "passes/Pipelining/StepParts.h"

using namespace mlir;

namespace divisi::pipelining {
#define GEN_PASS_DEF_ACCUMULATEFIRSTPASS
#include "passes/Pipelining/Passes.h.inc"

namespace {

std::optional<int> stageOfProducer(Value value) {
  Operation *op = value.getDefiningOp();
  return op && op->hasAttr(dist::names::stage) ? std::optional(dist::stageOf(op)) : std::nullopt;
}

Attribute stageAttrOf(Value value) {
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

struct AccumulateFirstPass : impl::AccumulateFirstPassBase<AccumulateFirstPass> {
  void runOnOperation() final {
    isNarrow = getOperation()->hasAttr(dist::names::stageAxes);
    SmallVector<graph::AccumulateOp> sums(getOperation().getOps<graph::AccumulateOp>());
    while (!sums.empty()) {
      graph::AccumulateOp sum = sums.pop_back_val();
      if (!sum->hasAttr("combine"))
        move(sum, sums);
    }
  }

private:
  /// Whether a sum of an operation's operands over the microbatches is worth it: of a sum of values of several stages, or of
  /// communication between stages of different axes.
  bool isApart(Operation *op) const {
    if (!op || !op->hasOneUse())
      return false;
    return isSumOfStages(op, stageOfProducer) || (isNarrow && isLinearCommunication(op));
  }

  /// Moves a sum over the microbatches in front of the operation that makes its operand. New sums are added to `sums`.
  void move(graph::AccumulateOp sum, SmallVector<graph::AccumulateOp> &sums) {
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
      stages.stage = stageAttrOf(operand);
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

  bool isNarrow = false; // stages have different axes
};
} // namespace
} // namespace divisi::pipelining
