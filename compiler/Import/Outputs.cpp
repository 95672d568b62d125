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
  const std::string &wanted = training ? training->loss : options.output;
  const std::string asked = training ? "the loss of the file's training_info, '" + wanted + "'" : "--output " + wanted;
  SmallVector<int> candidates;
  SmallVector<std::string> names;
  for (auto [i, output] : llvm::enumerate(outputs)) {
    auto type = tensorType(output.second);
    bool fits = isa<FloatType>(type.getElementType()) && (isLoss ? type.getNumElements() == 1 : type.getRank() >= 1);
    if (!wanted.empty() && output.first == wanted) {
      if (!fits)
        fail(asked, ": the output is ", isLoss ? "not a floating-point scalar" : "not a tensor of floats");
      return i;
    }
    if (fits) {
      candidates.push_back(i);
      names.push_back(output.first);
    }
  }
  if (!wanted.empty())
    fail(asked, " names no output of the model",
         suggestion(wanted, llvm::map_range(outputs, [](auto &o) { return llvm::StringRef(o.first); })));
  if (candidates.empty())
    fail(isLoss ? textOf("the model has no floating-point scalar output to minimize: add a loss with --loss ",
                         llvm::join(lossNames(), "|"), " and --label NAME")
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
  Value loss = inModel ? b.reshape(outputs[chosen].second, {}) : buildLoss(outputs[chosen].first, outputs[chosen].second, loc);
  if (!hasBatch(arguments->all()))
    fail("no input of the model has a dimension for the batch: there are no rows of data to train it on");
  arguments->addResult(b.cast(loss, b.f32()), names::loss, builder.getUnitAttr());
  for (auto [i, output] : llvm::enumerate(outputs))
    if (!inModel || (int)i != chosen)
      arguments->addResult(output.second, names::output, builder.getStringAttr(output.first));
  for (auto &[buffer, value] : renewals)
    if (value && (!training || training->statistics.count(arguments->find(buffer)->name)))
      arguments->addResult(value, names::renews, builder.getStringAttr(arguments->find(buffer)->name));
  addCheckResults();
}
