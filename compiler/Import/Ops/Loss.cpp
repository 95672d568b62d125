#include "compiler/Import/Operators.h"

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;
using Shape = CheckedBuilder::Shape;

namespace {
/// Labels as int64, -1 for ignored ones, and whether each is valid.
struct Labels {
  Value labels, valid;
};
} // namespace

static Labels readLabels(N &n, Value scores) {
  Value labels = n.in(1);
  auto shape = shapeOf(scores);
  Shape expected(shape);
  if (shape.size() < 2)
    fail("its scores ", shapeText(shape), " have no classes");
  expected.erase(expected.begin() + 1);
  if (shapeOf(labels) != ArrayRef<int64_t>(expected) || !isa<IntegerType>(n.elementOf(labels)))
    fail("labels of shape ", shapeText(shapeOf(labels)), " do not fit scores of shape ", shapeText(shape));
  int64_t classes = shape[1], ignored = n.integer("ignore_index", -100);
  labels = n.labels(labels, classes, ignored);
  Value valid = n.isWithin(labels, 0, classes);
  return {labels, valid};
}

/// The weight of each label; zero for ignored ones.
static Value weightsOf(N &n, const Labels &l, Value classWeights, Type element) {
  if (!classWeights)
    return n.cast(l.valid, element);
  Value safe = n.keepWhere(l.valid, l.labels);
  return n.keepWhere(l.valid, n.gather(n.cast(classWeights, element), safe, 0));
}

/// The label smoothing of torch.nn.functional.cross_entropy, which torch.export notes and its node lacks.
static double smoothingOf(N &n) {
  CallNotes call(n.node);
  double smoothing;
  bool isCall = StringRef(call.target).starts_with("aten.cross_entropy_loss") && !n.model.options.forwardOnly;
  return isCall && !StringRef(call.argument(5, "label_smoothing")).getAsDouble(smoothing) ? smoothing : 0;
}

/// The mean over the classes of their weighted losses; zero for ignored labels.
static Value lossOfAllClasses(N &n, Value logits, const Labels &l, Value classWeights) {
  Value logs = n.op<LogSoftmaxOp>(logits.getType(), logits, 1);
  if (classWeights)
    logs = n.mul(logs, n.along(n.cast(classWeights, n.elementOf(logits)), shapeOf(logits), 1));
  return n.keepWhere(l.valid, n.scale(n.reduceSum(logs, {1}), -1.0 / shapeOf(logits)[1]));
}

static std::string reductionOf(N &n) {
  std::string reduction = n.text("reduction", "mean");
  if (reduction != "none" && reduction != "sum" && reduction != "mean")
    fail("reduction '", reduction, "' is not known");
  return reduction;
}

/// The loss of each label, weighted and reduced. A mean divides by the sum of the weights of valid labels. `logits`:
/// those that a cross entropy smooths the labels of.
static Value reduced(N &n, Value each, const Labels &l, Value logits = {}) {
  Value classWeights = n.maybe(2);
  Value weights = weightsOf(n, l, classWeights, n.elementOf(each));
  if (classWeights)
    each = n.mul(each, weights);
  if (double smoothing = logits ? smoothingOf(n) : 0; smoothing > 0) {
    Value ofAll = n.scale(lossOfAllClasses(n, logits, l, classWeights), smoothing);
    each = n.add(n.scale(each, 1 - smoothing), ofAll);
  }
  std::string reduction = reductionOf(n);
  if (reduction == "none")
    return each;
  if (reduction == "sum")
    return n.sumAll(each);
  Value total = n.sumAll(weights);
  return n.div(n.sumAll(each), total);
}

static Value crossEntropy(N &n, Value logits, const Labels &l) {
  return n.op<CrossEntropyOp>(n.type(shapeOf(l.labels), n.elementOf(logits)), logits, l.labels);
}

/// The cross entropy with a distribution for each label, as torch.export writes it although ONNX's operator has classes only. A
/// mean divides by the number of labels, also with weights of classes.
static Value crossEntropyOfDistributions(N &n, Value logits) {
  Value labels = n.cast(n.in(1), n.elementOf(logits)), classWeights = n.maybe(2);
  if (double smoothing = smoothingOf(n))
    labels = n.addConst(n.scale(labels, 1 - smoothing), smoothing / shapeOf(logits)[1]);
  Value terms = n.mul(labels, n.op<LogSoftmaxOp>(logits.getType(), logits, 1));
  if (classWeights)
    terms = n.mul(terms, n.along(n.cast(classWeights, n.elementOf(logits)), shapeOf(logits), 1));
  Value each = n.neg(n.reduceSum(terms, {1}));
  std::string reduction = reductionOf(n);
  return reduction == "none" ? each : reduction == "sum" ? n.sumAll(each) : n.scale(n.sumAll(each), 1.0 / tensorType(each).getNumElements());
}

static Results importSoftmaxCrossEntropyLoss(N &n) {
  Value logits = n.in(0);
  if (n.isFloat(n.in(1)) && shapeOf(n.in(1)) == shapeOf(logits) && n.rankOf(logits) > 1 && !n.wants(1))
    return {crossEntropyOfDistributions(n, logits)};
  Labels l = readLabels(n, logits);
  Results results{reduced(n, crossEntropy(n, logits, l), l, logits)};
  if (n.wants(1))
    results.push_back(Value(n.op<LogSoftmaxOp>(logits.getType(), logits, 1)));
  return results;
}

/// The loss of log probabilities. Directly after log_softmax it becomes a cross entropy.
static Results importNegativeLogLikelihoodLoss(N &n) {
  Value scores = n.in(0);
  Labels l = readLabels(n, scores);
  if (auto softmax = scores.getDefiningOp<LogSoftmaxOp>(); softmax && softmax.getDim() == 1)
    return {reduced(n, crossEntropy(n, softmax.getX(), l), l)};
  Shape unit(shapeOf(scores));
  unit[1] = 1;
  Value chosen = n.op<GatherElementsOp>(scores, n.reshape(n.keepWhere(l.valid, l.labels), unit), 1);
  return {reduced(n, n.keepWhere(l.valid, n.neg(n.reshape(chosen, shapeOf(l.labels)))), l)};
}

llvm::ArrayRef<Operator> divisi::compiler::lossOperators() {
  static constexpr Operator rows[] = {
      {"NegativeLogLikelihoodLoss", 12, newest, importNegativeLogLikelihoodLoss},
      {"SoftmaxCrossEntropyLoss", 12, newest, importSoftmaxCrossEntropyLoss},
  };
  return rows;
}
