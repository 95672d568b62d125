#include "passes/Pipelining/StageDecisions.h"
#include "dialects/Dist/Tasks.h"
#include "dialects/Graph/Arguments.h"
#include "dialects/Graph/GraphBuilder.h"
#include "passes/Training/LossScaling.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::pipelining;

namespace {

BlockArgument scalingState(func::FuncOp function, StringRef name) {
  for (BlockArgument argument : function.getArguments())
    if (graph::roleOf(argument) == training::scalingRole && graph::nameOfArgument(argument).starts_with(name))
      return argument;
  return {};
}

/// The mark behind the count of elements that are not finite: the only one by which the scale is renewed.
graph::AccumulateOp countOf(func::FuncOp train, BlockArgument scale) {
  llvm::SetVector<Operation *> open;
  if (auto renewal = graph::findRenewal(train, graph::nameOfArgument(scale)))
    if (Operation *op = train.getBody().front().getTerminator()->getOperand(*renewal).getDefiningOp())
      open.insert(op);
  for (size_t next = 0; next < open.size(); ++next) {
    if (auto count = dyn_cast<graph::AccumulateOp>(open[next]))
      return count;
    for (Value operand : open[next]->getOperands())
      if (Operation *producer = operand.getDefiningOp())
        open.insert(producer);
  }
  return {};
}

/// What one stage adds to a count.
struct Share {
  Value sum;                        // null: nothing
  llvm::SetVector<StringAttr> axes; // of the all_reduces behind its terms
};

/// The shares of the stages in a sum of scalars that are not negative, which may be read as a number that is 0 or not.
/// `old`: the operations of the sum, users first.
SmallVector<Share> takeApart(Value sum, ArrayRef<StringAttr> axesOfAll, int64_t stages, OpBuilder &builder,
                             dist::StageListener &listener, SmallVectorImpl<Operation *> &old) {
  SmallVector<Share> shares(stages);
  SmallVector<std::pair<Value, SmallVector<StringAttr>>> open = {{sum, SmallVector<StringAttr>(axesOfAll)}};
  while (!open.empty()) {
    auto [value, axes] = open.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (auto add = dyn_cast_or_null<graph::AddOp>(op)) {
      old.push_back(op);
      open.push_back({add.getRhs(), axes});
      open.push_back({add.getLhs(), axes});
    } else if (auto reduce = dyn_cast_or_null<dist::AllReduceOp>(op); reduce && reduce.getInputs().size() == 1) {
      old.push_back(op);
      llvm::append_range(axes, reduce.getAxes().getAsRange<StringAttr>());
      open.push_back({reduce.getInputs()[0], axes});
    } else {
      Share &share = shares[op ? dist::stageOf(op) : 0];
      listener.follow(op);
      share.sum = graph::GraphBuilder(builder, sum.getLoc()).addMaybe(share.sum, value);
      share.axes.insert(axes.begin(), axes.end());
    }
  }
  return shares;
}

/// Renews state by a value, in place of another one if there is one.
void renew(func::FuncOp function, StringRef renews, Value value) {
  Builder b(function);
  Operation *end = function.getBody().front().getTerminator();
  if (auto renewal = graph::findRenewal(function, renews))
    return end->setOperand(*renewal, value);
  unsigned last = function.getNumResults();
  end->insertOperands(last, value);
  (void)function.insertResult(last, value.getType(),
                              b.getDictionaryAttr(b.getNamedAttr(graph::names::renews, b.getStringAttr(renews))));
}

} // namespace

StageDecisions::StageDecisions(func::FuncOp train, int64_t stages, ArrayRef<int64_t> replicas) {
  BlockArgument scale = scalingState(train, training::lossScaleOffset);
  graph::AccumulateOp count = scale ? countOf(train, scale) : graph::AccumulateOp();
  if (!count)
    return;
  dist::StageListener listener;
  OpBuilder builder(count->getContext(), &listener);
  builder.setInsertionPoint(count);
  graph::GraphBuilder b(builder, count.getLoc());
  SmallVector<StringAttr> axesOfAll;
  for (Operation *user : llvm::make_early_inc_range(count->getUsers()))
    if (auto reduce = dyn_cast<dist::AllReduceOp>(user); reduce && reduce.getInputs().size() == 1) {
      llvm::append_range(axesOfAll, reduce.getAxes().getAsRange<StringAttr>());
      reduce.getResult(0).replaceAllUsesWith(count.getResult());
      reduce->erase();
    }
  SmallVector<Operation *> old;
  SmallVector<Share> shares = takeApart(count.getX(), axesOfAll, stages, builder, listener, old);
  skippedByAll = scalingState(train, training::skippedSteps);
  std::string name = graph::nameOfArgument(skippedByAll).str();
  SmallVector<Value> wrong(stages), skipped(stages, skippedByAll);
  Value soFar; // on this stage and later ones
  for (int64_t stage = stages - 1; stage >= 0; --stage) {
    listener.stage = builder.getI64IntegerAttr(stage);
    Share &share = shares[stage];
    if (share.sum && !share.axes.empty()) {
      SmallVector<Attribute> axes(share.axes.begin(), share.axes.end());
      share.sum = dist::AllReduceOp::create(builder, count.getLoc(), TypeRange{share.sum.getType()},
                                            ValueRange{share.sum}, dist::ReductionKind::sum, builder.getArrayAttr(axes))
                      .getResult(0);
    }
    soFar = b.addMaybe(soFar, share.sum);
    wrong[stage] = b.op<graph::AccumulateOp>(soFar ? soFar : b.splatLike(count, 0));
  }
  for (int64_t stage = 0; stage < stages; ++stage) {
    listener.stage = builder.getI64IntegerAttr(stage);
    std::string mine = name;
    if (stage > 0) {
      NamedAttrList state(train.getArgAttrOfType<DictionaryAttr>(skippedByAll.getArgNumber(), graph::names::state));
      mine += "." + std::to_string(stage);
      while (llvm::is_contained(llvm::map_range(train.getArguments(), graph::nameOfArgument), mine))
        mine += "~"; // the model has such a name
      state.set("name", builder.getStringAttr(mine));
      NamedAttrList attributes;
      attributes.set(graph::names::state, state.getDictionary(builder.getContext()));
      attributes.set(dist::names::stage, listener.stage);
      unsigned last = train.getNumArguments();
      (void)train.insertArgument(last, skippedByAll.getType(), attributes.getDictionary(builder.getContext()),
                                 skippedByAll.getLoc());
      skipped[stage] = train.getArgument(last);
    }
    Value each = b.splatLike(skippedByAll, 1);
    if (!replicas.empty() && replicas[stage] > 1)
      each = b.op<graph::AccumulateOp>(each); // of each minibatch in a round
    Value finite = b.compareConst(graph::Predicate::eq, wrong[stage], 0);
    renew(train, mine, b.select(finite, skipped[stage], b.add(skipped[stage], each)));
  }
  count.getResult().replaceAllUsesWith(wrong[0]);
  count->erase();
  for (Operation *op : old)
    if (op->use_empty())
      op->erase();
  values[wrong[0]] = wrong;
  values[skippedByAll] = skipped;
}
