#include "dialects/Graph/GraphBuilder.h"
#include "dialects/Graph/SampleRows.h"
#include "dialects/Graph/WhenNeeded.h"
#include "passes/Training/Passes.h"
#include "passes/Training/StepFunction.h"
#include "passes/Training/ValidRows.h"

#include "mlir/IR/IRMapping.h"

#include <array>

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

/// The number of labels whose class is among the first `k` by score; of equal scores, the first class comes first, and
/// NaN comes before all numbers.
Value countAmongFirst(GraphBuilder &b, Value scores, Value labels, int64_t k) {
  ArrayRef<int64_t> shape = shapeOf(scores);
  Type integer = tensorType(labels).getElementType();
  // By sums over the classes, which split along them.
  Value classes = b.iota(shape, 1, integer), label = b.broadcastAlong(labels, shape, {1});
  Value own = b.reduceSum(b.keepWhere(b.compare(Predicate::eq, classes, label), scores), {1});
  own = b.broadcastAlong(own, shape, {1});
  Value isEarlier = b.compare(Predicate::lt, classes, label), isNan = b.compare(Predicate::ne, scores, scores);
  Value equalBefore = b.op<AndOp>(b.compare(Predicate::eq, scores, own), isEarlier);
  Value one = b.splatLike(classes, 1), none = b.splatLike(classes, 0);
  // Not "is greater": with NaN no comparison is true. A label that has NaN comes behind earlier ones that do, alone.
  Value before = b.select(equalBefore, one, none);
  before = b.select(b.compare(Predicate::le, scores, own), before, one);
  Value nanBefore = b.select(b.op<AndOp>(isNan, isEarlier), one, none);
  before = b.select(b.compare(Predicate::ne, own, own), nanBefore, before);
  Value rank = b.reduceSum(before, {1});
  Value valid = b.isWithin(labels, 0, shape[1]);
  Value hit = b.op<AndOp>(valid, b.compareConst(Predicate::lt, rank, k));
  return b.sumAll(b.indicator(hit, labels));
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
    if (averages)
      chooseAverages(step, builder, loss, mapping);
    AccuracyInterface classification;
    Operation *terminator = loss.getBody().front().getTerminator();
    ValidRows valid(step, builder, loss, mapping);
    for (Operation &op : loss.getBody().front().without_terminator()) {
      valid.clone(op, [&](Operation &one) { cloneForEvaluation(one, builder, mapping); });
      if (auto candidate = dyn_cast<AccuracyInterface>(op); candidate && !classification)
        classification = valid.classification(candidate);
    }
    for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
      if (loss.getResultAttr(i, names::loss))
        step.addReport(mapping.lookup(value), "loss");
      else if (loss.getResultAttr(i, "graph.count") && !classification) // over which the loss is the mean
        step.addReport(mapping.lookup(value), "count");
    }
    if (classification) {
      GraphBuilder graph(builder, classification.getLoc());
      auto [correct, count] = classification.buildAccuracy(graph);
      step.addReport(correct, "correct");
      step.addReport(count, "count");
    }
    if (failed(addMetrics(step, builder, loss, mapping, classification)))
      return signalPassFailure();
    std::optional<SamplePlaces> places;
    for (StringRef name : predictions)
      if (failed(addPrediction(step, builder, loss, mapping, places ? *places : places.emplace(loss), name)))
        return signalPassFailure();
    addChecks(step, loss, mapping);
    step.finish();
  }

private:
  /// Where a scalar says so, the averages of the parameters that train take their places.
  static void chooseAverages(StepFunction &step, OpBuilder &builder, func::FuncOp loss, IRMapping &mapping) {
    auto name = builder.getNamedAttr(names::scalar, builder.getStringAttr("averaged"));
    Value averaged = step.addArgument(RankedTensorType::get({}, builder.getI64Type()), builder.getDictionaryAttr(name), loss.getLoc());
    for (BlockArgument argument : loss.getArguments()) {
      unsigned i = argument.getArgNumber();
      auto parameter = loss.getArgAttrOfType<StringAttr>(i, names::parameter);
      if (!parameter || loss.getArgAttr(i, names::frozen))
        continue;
      SmallVector<NamedAttribute> more = {builder.getNamedAttr("of", parameter),
                                          builder.getNamedAttr("moment", builder.getStringAttr(averageMoment))};
      if (Attribute shape = loss.getArgAttr(i, names::modelShape))
        more.push_back(builder.getNamedAttr("shape", shape));
      Value average = step.addState(argument.getType(), (parameter.getValue() + "." + averageMoment).str(), "moment", argument.getLoc(), more);
      GraphBuilder b(builder, argument.getLoc());
      Value isAveraged = b.broadcast(b.compareConst(Predicate::ne, averaged, 0), shapeOf(argument), {});
      mapping.map(argument, b.select(isAveraged, average, mapping.lookup(argument)));
    }
  }

  /// Reports an output on demand.
  static LogicalResult addPrediction(StepFunction &step, OpBuilder &builder, func::FuncOp loss, const IRMapping &mapping,
                                     const SamplePlaces &places, StringRef name) {
    Value output, inLoss;
    std::string known;
    for (auto [i, value] : llvm::enumerate(loss.getBody().front().getTerminator()->getOperands()))
      if (auto text = loss.getResultAttrOfType<StringAttr>(i, names::output)) {
        known += (known.empty() ? "" : ", ") + text.getValue().str();
        if (text.getValue() == name)
          output = mapping.lookup(value), inLoss = value;
      }
    if (!output)
      return loss.emitError("--predict ") << name << " names no output of the model beside its loss"
                                          << (known.empty() ? "" : "; there are: ") << known;
    SmallVector<Attribute> inputs;
    int64_t batch = 0;
    llvm::SmallDenseSet<Value> needed = neededFor(output);
    for (BlockArgument argument : loss.getArguments()) {
      auto input = loss.getArgAttrOfType<StringAttr>(argument.getArgNumber(), names::input);
      if (!input)
        continue;
      if (batch == 0 && !shapeOf(argument).empty())
        batch = shapeOf(argument)[0];
      if (needed.contains(mapping.lookup(argument)))
        inputs.push_back(input);
    }
    ArrayRef<int64_t> shape = shapeOf(output);
    if (inputs.empty() || !output.getDefiningOp())
      return loss.emitError("--predict ") << name << ": the model does not compute this output from an input";
    if (batch == 0 || shape.empty() || shape[0] == 0 || shape[0] % batch != 0)
      return loss.emitError("--predict ") << name << ": the batch of " << batch << " does not divide its first dimension, so that its "
                                          << "rows are not those of samples";
    if (places.isElsewhere(inLoss))
      return loss.emitError("--predict ") << name << ": its rows are not in the order of the samples, which lie along another dimension";
    GraphBuilder b(builder, output.getLoc());
    if (tensorType(output).getElementType().isBF16()) // files have no such numbers
      output = b.cast(output, builder.getF32Type());
    step.addReport(output, "prediction",
                   {builder.getNamedAttr("name", builder.getStringAttr(name)),
                    builder.getNamedAttr("when", builder.getI64IntegerAttr(graph::whenPredictions)),
                    builder.getNamedAttr("inputs", builder.getArrayAttr(inputs))});
    return success();
  }

  /// A value and all that it is computed from.
  static llvm::SmallDenseSet<Value> neededFor(Value value) {
    llvm::SmallDenseSet<Value> needed;
    SmallVector<Value> work = {value};
    while (!work.empty()) {
      Value next = work.pop_back_val();
      if (needed.insert(next).second && next.getDefiningOp())
        llvm::append_range(work, next.getDefiningOp()->getOperands());
    }
    return needed;
  }

  /// Metrics of classes are sums over the labels, others means over the rows.
  LogicalResult addMetrics(StepFunction &step, OpBuilder &builder, func::FuncOp loss, const IRMapping &mapping,
                           AccuracyInterface classification) {
    auto named = [&](const llvm::Twine &name) { return builder.getNamedAttr("name", builder.getStringAttr(name)); };
    for (StringRef metric : metrics) {
      int64_t k = 0;
      if (metric == "mae") {
        Value mean = meanAbsoluteError(builder, loss, mapping);
        if (!mean)
          return loss.emitError("--metric mae needs --output NAME: an output of the shape of '") << label << "'";
        step.addReport(mean, "mean", named(metric));
        continue;
      }
      if (!classification)
        return loss.emitError("--metric ") << metric << " needs a loss over classes: a cross entropy";
      GraphBuilder b(builder, classification.getLoc());
      if (isOfSet(metric)) // of all of them together, below
        continue;
      if (metric == "perplexity") // the first result of a classification is the loss of each label
        step.addReport(b.sumAll(classification->getResult(0)), "surprise");
      else if (metric.consume_front("top") && !metric.getAsInteger(10, k)) { // its operands are scores and labels
        if (int64_t classes = shapeOf(classification->getOperand(0))[1]; k > classes)
          return loss.emitError("--metric top") << k << ": there are " << classes << " classes";
        step.addReport(countAmongFirst(b, classification->getOperand(0), classification->getOperand(1), k), "hits",
                       named("top" + llvm::Twine(k)));
      } else
        return loss.emitError("there is no metric '") << metric << "'";
    }
    addScores(step, builder, classification);
    return success();
  }

  static bool isOfSet(StringRef metric) { return metric == "f1" || metric == "iou" || metric == "auc"; }

  /// Reports scores and labels on demand, of which the runtime makes the metrics that are no sums.
  void addScores(StepFunction &step, OpBuilder &builder, AccuracyInterface classification) {
    SmallVector<Attribute> names;
    for (StringRef metric : metrics)
      if (isOfSet(metric))
        names.push_back(builder.getStringAttr(metric));
    if (names.empty())
      return;
    GraphBuilder b(builder, classification.getLoc());
    constexpr std::array reports = {"divisi.scores", "divisi.labels"};
    for (auto [i, name] : llvm::enumerate(reports)) {
      Value value = b.cast(classification->getOperand(i), builder.getF32Type());
      step.addReport(value, "prediction",
                     {builder.getNamedAttr("name", builder.getStringAttr(name)),
                      builder.getNamedAttr("when", builder.getI64IntegerAttr(graph::whenPredictions)),
                      builder.getNamedAttr("metrics", builder.getArrayAttr(names))});
    }
  }

  /// The mean over all elements of the rows; null unless label, output and rows are known.
  Value meanAbsoluteError(OpBuilder &builder, func::FuncOp loss, const IRMapping &mapping) {
    Value compared, rows, chosen;
    int64_t batch = 0;
    for (BlockArgument argument : loss.getArguments()) {
      auto is = [&](StringRef role, StringRef name) {
        auto text = loss.getArgAttrOfType<StringAttr>(argument.getArgNumber(), role);
        return text && text.getValue() == name;
      };
      if (is(names::input, label))
        compared = mapping.lookup(argument);
      else if (is(names::scalar, "rows"))
        rows = mapping.lookup(argument);
      else if (batch == 0 && loss.getArgAttr(argument.getArgNumber(), names::input) && !shapeOf(argument).empty())
        batch = shapeOf(argument)[0];
    }
    if (!compared || !rows)
      return {};
    ArrayRef<int64_t> shape = shapeOf(compared);
    for (auto [i, value] : llvm::enumerate(loss.getBody().front().getTerminator()->getOperands())) {
      auto name = loss.getResultAttrOfType<StringAttr>(i, names::output);
      if (!name || shapeOf(value) != shape || (!output.empty() && name.getValue() != output))
        continue;
      if (chosen)
        return {};
      chosen = mapping.lookup(value);
    }
    if (!chosen || shape.empty())
      return {};
    GraphBuilder b(builder, loss.getLoc());
    Value truth = b.cast(compared, builder.getF32Type());
    Value each = b.distance(b.cast(chosen, builder.getF32Type()), truth);
    return graph::meanOfSampleRows(b, each, rows, batch, graph::elementsOfRow(each));
  }
};
} // namespace
} // namespace divisi::training
