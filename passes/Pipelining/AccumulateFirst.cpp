#include "dialects/Dist/StageAxes.h"
#include "dialects/Dist/Tasks.h"
#include "dialects/Graph/GraphBuilder.h"
#include "passes/Pipelining/Passes.h"

#include "llvm/ADT/MapVector.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace divisi::pipelining {
#define GEN_PASS_DEF_ACCUMULATEFIRSTPASS
#include "passes/Pipelining/Passes.h.inc"

namespace {

Attribute stageOfProducer(Value value) {
  Operation *op = value.getDefiningOp();
  return op ? op->getAttr(dist::names::stage) : Attribute();
}

/// The addition that makes a value which nothing else reads; null if there is none.
Operation *additionOf(Value value) {
  auto add = value.getDefiningOp<graph::AddOp>();
  return add && add->hasOneUse() ? add.getOperation() : nullptr;
}

/// Whether an operation communicates one value, of which sums may be taken before as well as behind it.
bool isLinearCommunication(Operation *op) {
  if (auto reduce = dyn_cast<dist::AllReduceOp>(op))
    return reduce.getInputs().size() == 1 && reduce.getKind() == dist::ReductionKind::sum;
  if (auto scatter = dyn_cast<dist::ReduceScatterOp>(op))
    return scatter.getKind() == dist::ReductionKind::sum;
  return isa<dist::TransferOp>(op);
}

/// What each stage contributes to a value.
using StageValues = llvm::SmallMapVector<Attribute, Value, 2>;

/// Takes one sum over the microbatches apart, into sums that are nearer to what the stages compute.
class Split {
public:
  /// `cast`: between the sum and its operand's producer (sums of 16-bit values are f32); or null.
  Split(graph::AccumulateOp sum, graph::CastOp cast) : sum(sum), cast(cast), builder(sum), b(builder, sum.getLoc()) {
    builder.setListener(&stages);
  }

  /// Sums what each stage contributes to a sum of several, and adds these sums. `root` is an addition.
  void byStages(Operation *root) {
    SmallVector<Operation *> tree = {root}, mixed; // users first; mixed: of several stages
    for (size_t i = 0; i < tree.size(); ++i)
      for (Value operand : tree[i]->getOperands())
        if (Operation *add = additionOf(operand))
          tree.push_back(add);
        else if (!stageOfProducer(operand))
          return; // what every stage can compute is of none
    const Attribute own = sum->getAttr(dist::names::stage);
    llvm::DenseMap<Operation *, StageValues> parts;
    auto partsOf = [&](Value operand) {
      if (Operation *add = additionOf(operand))
        return parts.at(add);
      StageValues leaf;
      leaf[stageOfProducer(operand)] = operand;
      return leaf;
    };
    for (Operation *add : llvm::reverse(tree)) {
      StageValues mine = partsOf(add->getOperand(0)), other = partsOf(add->getOperand(1));
      const bool isMixed = mine.size() > 1 || other.size() > 1 || mine.front().first != other.front().first;
      if (isMixed)
        mixed.push_back(add);
      builder.setInsertionPoint(add);
      for (auto [stage, value] : other) {
        stages.stage = stage;
        Value &part = mine[stage];
        part = !isMixed ? add->getResult(0) : part ? b.add(part, value) : value;
      }
      parts[add] = std::move(mine);
    }
    if (parts.at(root).size() < 2)
      return;
    builder.setInsertionPoint(sum);
    Value total;
    for (auto [stage, part] : parts.at(root)) {
      Value ofStage = accumulate(stage, part);
      stages.stage = own;
      total = b.addMaybe(total, ofStage);
    }
    replaceBy(total);
    for (Operation *add : llvm::reverse(mixed))
      add->erase();
  }

  /// Sums before an operation that communicates the value.
  void before(Operation *communication) {
    Value operand = communication->getOperand(0);
    IRMapping mapping;
    mapping.map(operand, accumulate(stageOfProducer(operand), operand));
    stages.stage = communication->getAttr(dist::names::stage);
    Operation *moved = builder.clone(*communication, mapping);
    auto type = graph::tensorType(moved->getResult(0));
    moved->getResult(0).setType(RankedTensorType::get(type.getShape(), graph::tensorType(sum.getX()).getElementType()));
    replaceBy(moved->getResult(0));
    communication->erase();
  }

  SmallVector<graph::AccumulateOp> sums; // that take the place of the one

private:
  Value accumulate(Attribute stage, Value part) {
    stages.stage = stage;
    if (cast)
      part = b.cast(part, graph::tensorType(cast.getResult()).getElementType());
    sums.push_back(graph::AccumulateOp::create(builder, sum.getLoc(), part));
    return sums.back();
  }
  void replaceBy(Value value) {
    sum.getResult().replaceAllUsesWith(value);
    sum.erase();
    if (cast)
      cast.erase();
  }

  graph::AccumulateOp sum;
  graph::CastOp cast;
  dist::StageListener stages;
  OpBuilder builder;
  graph::GraphBuilder b;
};

struct AccumulateFirstPass : impl::AccumulateFirstPassBase<AccumulateFirstPass> {
  void runOnOperation() final {
    const bool isNarrow = getOperation()->hasAttr(dist::names::stageAxes);
    SmallVector<graph::AccumulateOp> sums(getOperation().getOps<graph::AccumulateOp>());
    while (!sums.empty()) {
      graph::AccumulateOp sum = sums.pop_back_val();
      auto cast = sum.getX().getDefiningOp<graph::CastOp>();
      if (cast && !cast->hasOneUse())
        cast = {};
      Operation *producer = (cast ? cast.getX() : sum.getX()).getDefiningOp();
      if (sum->hasAttr("combine") || !producer || !producer->hasOneUse())
        continue;
      Split split(sum, cast);
      if (isa<graph::AddOp>(producer))
        split.byStages(producer);
      else if (isNarrow && isLinearCommunication(producer))
        split.before(producer);
      llvm::append_range(sums, split.sums);
    }
  }
};
} // namespace
} // namespace divisi::pipelining
