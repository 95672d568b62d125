#include "compiler/Import/ModelImporter.h"
#include "divisi/suggest.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;
using namespace divisi::graph;
using Loss = ImportOptions::Loss;
using Outputs = std::vector<std::pair<std::string, Value>>;

/// The graph's outputs that are tensors. Warns of other outputs, and of shapes that differ from the declared ones.
static Outputs outputsOf(const onnx::GraphProto &graph, const Scope &scope, ModelImporter &importer) {
  Outputs outputs;
  for (const auto &output : graph.output()) {
    const Item *item = scope.find(output.name());
    if (!item)
      fail("output '", output.name(), "' is computed by no node");
    if (!item->tensor) {
      if (importer.options.forwardOnly)
        fail("output '", output.name(), "' is not a tensor, or its operator does not compute it");
      importer.warn(textOf("output '", output.name(), "' is left out: it is not a tensor"));
      continue;
    }
    auto shape = shapeOf(item->tensor);
    const auto &declared = output.type().tensor_type().shape();
    bool differs = output.type().tensor_type().has_shape() && declared.dim_size() != (int)shape.size();
    for (size_t d = 0; !differs && d < shape.size() && (int)d < declared.dim_size(); ++d)
      differs = declared.dim(d).has_dim_value() && declared.dim(d).dim_value() != shape[d];
    if (differs)
      importer.warn(textOf("output '", output.name(), "' has the shape ", shapeText(shape),
                           ", which is not what the "
                           "model declares"));
    outputs.emplace_back(output.name(), item->tensor);
  }
  return outputs;
}

void ModelImporter::addForwardOutputs(const Scope &scope) {
  for (auto &[name, value] : outputsOf(model->graph(), scope, *this))
    arguments->addResult(value, names::output, builder.getStringAttr(name));
}

/// The index of the output that is the loss, or from which the loss is computed.
int ModelImporter::chooseOutput(const Outputs &outputs, bool isLoss) {
  SmallVector<int> candidates;
  SmallVector<std::string> names;
  for (auto [i, output] : llvm::enumerate(outputs)) {
    auto type = tensorType(output.second);
    bool fits = isa<FloatType>(type.getElementType()) && (isLoss ? type.getNumElements() == 1 : type.getRank() >= 1);
    if (!options.output.empty() && output.first == options.output) {
      if (!fits)
        fail("--output ", options.output, ": the output is ",
             isLoss ? "not a floating-point scalar" : "not a tensor of floats");
      return i;
    }
    if (fits) {
      candidates.push_back(i);
      names.push_back(output.first);
    }
  }
  if (!options.output.empty())
    fail("--output ", options.output, " names no output of the model",
         suggestion(options.output, llvm::map_range(outputs, [](auto &o) { return llvm::StringRef(o.first); })));
  if (candidates.empty())
    fail(isLoss ? "the model has no floating-point scalar output to minimize: add a loss with --loss "
                  "cross_entropy|mse|bce and --label NAME"
                : "the model has no floating-point output to put a loss on");
  if (candidates.size() > 1)
    fail(isLoss ? "several outputs could be the loss" : "several outputs could take the loss",
         ": choose one with "
         "--output NAME (",
         llvm::join(names, ", "), ")");
  return candidates[0];
}

/// Whether an input that is not a scalar exists, whose first dimension is then the batch.
static bool hasBatch(const std::deque<Signature::Argument> &arguments) {
  return llvm::any_of(arguments, [](const Signature::Argument &a) {
    return a.role == Signature::Role::input && !shapeOf(a.value).empty();
  });
}

void ModelImporter::addOutputs(const Scope &scope) {
  Outputs outputs = outputsOf(model->graph(), scope, *this);
  bool inModel = options.loss == Loss::inModel;
  if (inModel && !options.label.empty())
    fail("--label ", options.label, " is given without --loss");
  int chosen = chooseOutput(outputs, inModel);
  Location loc = NameLoc::get(builder.getStringAttr("loss"));
  CheckedBuilder b(builder, loc, lastError);
  Value loss = inModel ? b.reshape(outputs[chosen].second, {}) : buildLoss(outputs[chosen].second, loc);
  if (!hasBatch(arguments->all()))
    fail("no input of the model has a dimension for the batch: there are no rows of data to train it on");
  arguments->addResult(b.cast(loss, b.f32()), names::loss, builder.getUnitAttr());
  for (auto [i, output] : llvm::enumerate(outputs))
    if (!inModel || (int)i != chosen)
      arguments->addResult(output.second, names::output, builder.getStringAttr(output.first));
  for (auto &[buffer, value] : renewals)
    if (value)
      arguments->addResult(value, names::renews, builder.getStringAttr(arguments->find(buffer)->name));
  addCheckResults();
}

//===- Losses that are not in the model -----------------------------------===//

/// The mean of `each` over the first `rows` rows. That is a run-time scalar, because the last batch of an evaluation is
/// padded.
static Value meanOfRows(CheckedBuilder &b, Value each, Value rows) {
  auto shape = shapeOf(each);
  Value counts = b.compare(Predicate::lt, b.iota(shape, 0), b.broadcast(rows, shape, {}));
  Value sum = b.sumAll(b.select(counts, each, b.splatLike(each, 0)));
  double inner = shape[0] ? (double)tensorType(each).getNumElements() / shape[0] : 1;
  return b.div(sum, b.scale(b.cast(rows, b.elementOf(each)), inner));
}

static Value crossEntropy(CheckedBuilder &b, Value logits, Value label) {
  Value each = b.op<CrossEntropyOp>(tensorType(label).clone(b.elementOf(logits)), logits, label);
  Value valid =
      b.op<AndOp>(b.compareConst(Predicate::ge, label, 0), b.compareConst(Predicate::lt, label, shapeOf(logits)[1]));
  Value count = b.sumAll(b.select(valid, b.splatLike(each, 1), b.splatLike(each, 0)));
  return b.div(b.sumAll(each), count);
}

Value ModelImporter::buildLoss(Value output, Location loc) {
  if (options.label.empty())
    fail("--loss needs --label NAME, the name of the input that it compares with");
  CheckedBuilder b(builder, loc, lastError);
  bool isClass = options.loss == Loss::crossEntropy;
  CheckedBuilder::Shape shape(shapeOf(output));
  if (isClass && shape.size() < 2)
    fail("--loss cross_entropy needs an output of shape [batch, classes, ...], not ", shapeText(shape));
  if (isClass)
    shape.erase(shape.begin() + 1);
  auto type = b.type(shape, isClass ? b.i64() : b.elementOf(output));
  Signature::Argument *input = arguments->findInput(options.label);
  if (input && input->value.getType() != type)
    fail("--label ", options.label, ": the model's input of that name does not have the shape and type of a label");
  Location labelLoc = NameLoc::get(builder.getStringAttr(options.label));
  Value label = input ? Value(input->value) : arguments->add(Signature::Role::input, options.label, type, labelLoc);
  if (isClass) {
    Signature::Argument &argument = *arguments->find(label);
    argument.isLabel = true;
    int64_t classes = shapeOf(output)[1];
    auto [first, last] = argument.range.value_or(std::pair<int64_t, int64_t>(0, classes));
    argument.range = {std::max<int64_t>(first, 0), std::min(last, classes)};
    argument.padding = -100;
    return crossEntropy(b, output, label);
  }
  Value rows = arguments->add(Signature::Role::scalar, "rows", RankedTensorType::get({}, b.i64()), loc);
  if (options.loss == Loss::mse) {
    Value difference = b.sub(output, label);
    return meanOfRows(b, b.mul(difference, difference), rows);
  }
  return meanOfRows(b, b.sub(b.op<SoftplusOp>(output), b.mul(output, label)), rows);
}
