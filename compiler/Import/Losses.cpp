// Losses that are not in the model: --loss puts one on an output.
#include "compiler/Import/ModelImporter.h"
#include "dialects/Graph/SampleRows.h"

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using Loss = ImportOptions::Loss;
using Shape = CheckedBuilder::Shape;

namespace {
struct NamedLoss {
  Loss loss;
  llvm::StringRef name;
  bool ofClasses; // labels are classes
};
constexpr NamedLoss kinds[] = {{Loss::crossEntropy, "cross_entropy", true},
                                {Loss::mse, "mse", false},
                                {Loss::bce, "bce", false},
                                {Loss::huber, "huber", false},
                                {Loss::l1, "l1", false},
                                {Loss::nll, "nll", true},
                                {Loss::kl, "kl", false},
                                {Loss::focal, "focal", false},
                                {Loss::triplet, "triplet", false}};

/// Scores with their classes along axis 1, and labels of the same shape without it.
struct Classes {
  Value scores, labels;
  int64_t count;
};

/// The number of samples that are not padding, a run-time scalar, and of all samples. A sample may have several consecutive rows.
struct ValidSamples {
  Value count;
  int64_t batch;
};
} // namespace

std::vector<std::string> divisi::compiler::lossNames() {
  std::vector<std::string> names;
  for (const NamedLoss &kind : kinds)
    names.push_back(kind.name.str());
  return names;
}

Loss divisi::compiler::parseLoss(llvm::StringRef name) {
  return llvm::find_if(kinds, [&](const NamedLoss &kind) { return kind.name == name; })->loss;
}

static const NamedLoss &kindOf(Loss loss) {
  return *llvm::find_if(kinds, [&](const NamedLoss &kind) { return kind.loss == loss; });
}

/// The sum of `each` over the rows of the valid samples, divided by the number of these rows.
static Value sumOfRows(CheckedBuilder &b, Value each, const ValidSamples &valid) {
  return meanOfSampleRows(b, each, valid.count, valid.batch, 1);
}

/// The mean of `each` over all elements of these rows.
static Value meanOfRows(CheckedBuilder &b, Value each, const ValidSamples &valid) {
  return meanOfSampleRows(b, each, valid.count, valid.batch, elementsOfRow(each));
}

/// Moves the classes to axis 1; if they are last, all other dimensions become one, which moves nothing.
static Value classesSecond(CheckedBuilder &b, Value scores, int64_t axis) {
  auto shape = shapeOf(scores);
  if (axis == 1)
    return scores;
  if (axis == b.rankOf(scores) - 1)
    return b.reshape(scores, {tensorType(scores).getNumElements() / std::max<int64_t>(shape[axis], 1), shape[axis]});
  Shape order = dimRange(0, b.rankOf(scores));
  order.erase(order.begin() + axis);
  order.insert(order.begin() + 1, axis);
  return b.transpose(scores, order);
}

static Classes arrange(CheckedBuilder &b, Value scores, Value labels, int64_t axis) {
  scores = classesSecond(b, scores, axis);
  Shape shape(shapeOf(scores));
  int64_t count = shape[1];
  shape.erase(shape.begin() + 1);
  labels = b.reshape(labels, shape);
  return {scores, labels, count};
}

/// Whether each label counts.
static Value validOf(CheckedBuilder &b, const Classes &c) {
  return b.isWithin(c.labels, 0, c.count);
}

/// The number of labels that are not ignored, as an element type.
static Value countValid(CheckedBuilder &b, const Classes &c, Type element) {
  auto shape = shapeOf(c.labels);
  Value valid = validOf(b, c);
  Value none = b.splatOf(shape, element, 0);
  return b.sumAll(b.select(valid, b.splatOf(shape, element, 1), none));
}

/// The mean over labels that are not ignored.
static Value meanOfValid(CheckedBuilder &b, Value each, const Classes &c) {
  Value count = countValid(b, c, b.elementOf(each));
  return b.div(b.sumAll(each), count);
}

/// Smoothing moves this share of each label to all classes equally. The z-loss (PaLM, arXiv 2204.02311, section 5) is the
/// square of the logarithm of the softmax's denominator.
static Value crossEntropy(CheckedBuilder &b, const Classes &c, double smoothing, double zLoss) {
  Value each = b.op<CrossEntropyOp>(tensorType(c.labels).clone(b.elementOf(c.scores)), c.scores, c.labels);
  const Value plain = each;
  if (smoothing > 0) {
    Value logs = b.reduceSum(b.op<LogSoftmaxOp>(c.scores.getType(), c.scores, 1), {1});
    Value all = b.scale(logs, -smoothing / c.count);
    all = b.keepWhere(validOf(b, c), all);
    each = b.add(b.scale(each, 1 - smoothing), all);
  }
  if (zLoss > 0) { // a label's score plus its loss is that logarithm, also where other scores are -inf
    Value label = b.broadcastAlong(c.labels, shapeOf(c.scores), {1});
    Value isLabel = b.compare(Predicate::eq, b.iota(shapeOf(c.scores), 1, b.elementOf(c.labels)), label);
    Value z = b.add(b.reduceSum(b.keepWhere(isLabel, c.scores), {1}), plain);
    Value square = b.scale(b.mul(z, z), zLoss);
    each = b.add(each, b.keepWhere(validOf(b, c), square));
  }
  return meanOfValid(b, each, c);
}

static Value negativeLogLikelihood(CheckedBuilder &b, const Classes &c) {
  Shape unit(shapeOf(c.scores));
  unit[1] = 1;
  Value valid = validOf(b, c);
  Value chosen = b.op<GatherElementsOp>(c.scores, b.reshape(b.keepWhere(valid, c.labels), unit), 1);
  return meanOfValid(b, b.keepWhere(valid, b.neg(b.reshape(chosen, shapeOf(c.labels)))), c);
}

/// The loss of classes, and the number of labels unless an operation of the loss knows it. Log-probabilities that a
/// log_softmax computed make nll the cross entropy of its operand.
static std::pair<Value, Value> lossOfClasses(CheckedBuilder &b, const ImportOptions &options, Value output, Value label,
                                             int64_t axis) {
  if (options.loss == Loss::crossEntropy)
    return {crossEntropy(b, arrange(b, output, label, axis), options.labelSmoothing, options.zLoss), {}};
  auto softmax = output.getDefiningOp<LogSoftmaxOp>();
  if (softmax && (int64_t)softmax.getDim() == axis)
    return {crossEntropy(b, arrange(b, softmax.getX(), label, axis), 0, 0), {}};
  Classes classes = arrange(b, output, label, axis);
  return {negativeLogLikelihood(b, classes), countValid(b, classes, b.i64())};
}

/// The binary cross entropy of each logit: softplus(x) - x label.
static Value logisticLoss(CheckedBuilder &b, Value x, Value label) {
  Value product = b.mul(x, label);
  return b.sub(b.op<SoftplusOp>(x), product);
}

/// The loss of numbers, as PyTorch defines it; of kl with the reduction "batchmean".
static Value lossOfNumbers(CheckedBuilder &b, Loss loss, Value output, Value label, const ValidSamples &valid) {
  if (loss == Loss::bce)
    return meanOfRows(b, logisticLoss(b, output, label), valid);
  if (loss == Loss::focal) { // torchvision.ops.sigmoid_focal_loss: alpha 0.25, gamma 2
    Value one = b.splatLike(label, 1), p = b.op<SigmoidOp>(output);
    Value ofWrong = b.mul(b.sub(one, p), label);
    Value wrong = b.add(b.mul(p, b.sub(one, label)), ofWrong);
    Value square = b.mul(wrong, wrong);
    Value each = b.mul(logisticLoss(b, output, label), square);
    Value alpha = b.splatLike(label, 0.75);
    Value weight = b.add(b.scale(label, 0.25 - 0.75), alpha);
    return meanOfRows(b, b.mul(weight, each), valid);
  }
  if (loss == Loss::kl) { // label ln label is 0 where the label is 0
    Value one = b.splatLike(label, 1);
    Value known = b.select(b.compareConst(Predicate::eq, label, 0), one, label);
    return sumOfRows(b, b.mul(label, b.sub(b.op<LogOp>(known), output)), valid);
  }
  Value difference = b.sub(output, label);
  if (loss == Loss::mse)
    return meanOfRows(b, b.mul(difference, difference), valid);
  Value size = b.op<AbsOp>(difference);
  if (loss == Loss::l1)
    return meanOfRows(b, size, valid);
  Value square = b.scale(b.mul(difference, difference), 0.5);
  Value linear = b.addConst(size, -0.5);
  return meanOfRows(b, b.select(b.compareConst(Predicate::le, size, 1), square, linear), valid);
}

/// torch.nn.TripletMarginLoss with margin 1 and p 2, of the anchor, the positive and the negative along axis 1.
static Value tripletLoss(CheckedBuilder &b, Value output, const ValidSamples &valid) {
  ArrayRef<int64_t> shape = shapeOf(output);
  auto part = [&](int64_t i) { return b.reshape(b.sliceDim(output, 1, i, 1), {shape[0], shape[2]}); };
  auto distance = [&](int64_t i) {
    Value other = part(i);
    Value apart = b.addConst(b.sub(part(0), other), 1e-6);
    return b.op<SqrtOp>(b.reduceSum(b.mul(apart, apart), {1}));
  };
  Value toNegative = distance(2);
  return meanOfRows(b, b.op<ReluOp>(b.addConst(b.sub(distance(1), toNegative), 1)), valid);
}

/// The axis of the classes, from 1 on.
int64_t ModelImporter::classAxisOf(const std::string &name, ArrayRef<int64_t> shape) {
  int64_t rank = shape.size(), axis = options.classAxis.value_or(1);
  if (rank < 2)
    fail("--loss ", name, " needs an output of shape [batch, classes, ...], not ", shapeText(shape));
  if (axis < 0)
    axis += rank;
  if (axis < 1 || axis >= rank)
    fail("--class-axis ", *options.classAxis, ": an output of shape ", shapeText(shape), " has the axes 1 to ",
         rank - 1, " behind the batch");
  return axis;
}

Value ModelImporter::buildLoss(llvm::StringRef outputName, Value output, Location loc) {
  CheckedBuilder b(builder, loc, lastError);
  const NamedLoss &kind = kindOf(options.loss);
  Shape shape(shapeOf(output));
  auto validSamples = [&]() -> ValidSamples {
    int64_t batch = 0;
    for (const Signature::Argument &argument : arguments->all())
      if (batch == 0 && argument.role == Signature::Role::input && argument.name != options.label && b.rankOf(argument.value) > 0)
        batch = shapeOf(argument.value)[0];
    return {arguments->add(Signature::Role::scalar, "rows", RankedTensorType::get({}, b.i64()), loc), batch};
  };
  if (options.loss == Loss::triplet) {
    if (shape.size() != 3 || shape[1] != 3)
      fail("--loss triplet needs an output of shape [batch, 3, features], the anchor, the positive and the negative, not ",
           shapeText(shape));
    notes.push_back(textOf("loss triplet of '", outputName.str(), "' ", shapeText(shape)));
    return tripletLoss(b, output, validSamples());
  }
  if (options.label.empty())
    fail("--loss needs --label NAME, the name of the input that it compares with");
  int64_t axis = kind.ofClasses ? classAxisOf(kind.name.str(), shape) : 0;
  if (kind.ofClasses)
    shape.erase(shape.begin() + axis);
  auto type = b.type(shape, kind.ofClasses ? b.i64() : b.elementOf(output));
  Signature::Argument *input = arguments->findInput(options.label);
  if (input && input->value.getType() != type)
    fail("--label ", options.label, ": the model's input of that name does not have the shape and type of a label, ",
         kind.ofClasses ? "i64" : "floats", shapeText(shape));
  Location labelLoc = NameLoc::get(builder.getStringAttr(options.label));
  Value label = input ? Value(input->value) : arguments->add(Signature::Role::input, options.label, type, labelLoc);
  std::string text = textOf("loss ", kind.name.str(), " of '", outputName.str(), "' ", shapeText(shapeOf(output)));
  if (!kind.ofClasses) {
    notes.push_back(textOf(text, ", label '", options.label, "' ", shapeText(shape)));
    return lossOfNumbers(b, options.loss, output, label, validSamples());
  }
  int64_t classes = shapeOf(output)[axis];
  bool isOpen = !options.classAxis && b.rankOf(output) > 2;
  notes.push_back(textOf(text, ": ", classes, " classes along axis ", axis,
                         isOpen ? " (--class-axis names another)" : "", ", label '", options.label, "' ",
                         shapeText(shape)));
  Signature::Argument &argument = *arguments->find(label);
  argument.isLabel = true;
  auto [first, last] = argument.range.value_or(std::pair<int64_t, int64_t>(0, classes));
  argument.range = {std::max<int64_t>(first, 0), std::min(last, classes)};
  argument.padding = -100;
  auto [loss, count] = lossOfClasses(b, options, output, label, axis);
  if (count)
    arguments->addResult(count, "graph.count", builder.getUnitAttr());
  return loss;
}
