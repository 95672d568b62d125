#include "dialects/Graph/GraphBuilder.h"
#include "passes/Training/Passes.h"
#include "passes/Training/StepFunction.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::graph;

namespace divisi::training {
#define GEN_PASS_DEF_MAKEEVALUATEPASS
#include "passes/Training/Passes.h.inc"

namespace {

/// Clones an operation into @evaluate: unchanged, or as its evaluation interface says.
void cloneForEvaluation(Operation &op, OpBuilder &builder, IRMapping &mapping) {
  Operation *copy = builder.clone(op, mapping);
  auto differs = dyn_cast<EvaluationInterface>(copy);
  if (!differs)
    return;
  GraphBuilder graph(builder, op.getLoc());
  SmallVector<Value> values = differs.buildEvaluation(graph);
  for (auto [old, value] : llvm::zip(op.getResults(), values))
    if (value)
      mapping.map(old, value);
}

struct MakeEvaluatePass : impl::MakeEvaluatePassBase<MakeEvaluatePass> {
  using MakeEvaluatePassBase::MakeEvaluatePassBase;

  void runOnOperation() final {
    auto loss = getOperation().lookupSymbol<func::FuncOp>("loss");
    if (!loss) {
      getOperation().emitError("expected a function @loss");
      return signalPassFailure();
    }
    OpBuilder builder(loss);
    builder.setInsertionPointAfter(loss);
    StepFunction step(builder, loss.getLoc(), "evaluate");
    IRMapping mapping;
    addModelArguments(step, loss, mapping);
    builder.setInsertionPointToEnd(&step.getBody());
    AccuracyInterface classification;
    Operation *terminator = loss.getBody().front().getTerminator();
    for (Operation &op : loss.getBody().front().without_terminator()) {
      cloneForEvaluation(op, builder, mapping);
      if (auto candidate = dyn_cast<AccuracyInterface>(op); candidate && !classification)
        classification = cast<AccuracyInterface>(mapping.lookup(op.getResult(0)).getDefiningOp());
    }
    for (auto [i, value] : llvm::enumerate(terminator->getOperands()))
      if (loss.getResultAttr(i, names::loss))
        step.addReport(mapping.lookup(value), "loss");
    if (classification) {
      GraphBuilder graph(builder, classification.getLoc());
      auto [correct, count] = classification.buildAccuracy(graph);
      step.addReport(correct, "correct");
      step.addReport(count, "count");
    }
    addChecks(step, loss, mapping);
    step.finish();
  }
};
} // namespace
} // namespace divisi::training
