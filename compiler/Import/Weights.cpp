#include "compiler/Import/ModelImporter.h"

#include "llvm/Support/Regex.h"

using namespace mlir;
using namespace divisi::compiler;
using Role = Signature::Role;

void ModelImporter::eraseUnused() {
  Block *block = builder.getInsertionBlock();
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*block)))
    if (op.use_empty() && !op.hasTrait<OpTrait::IsTerminator>() && !arguments->isResult(&op))
      op.erase();
}

/// The largest result that is folded for the sake of a readable module.
static constexpr int64_t maxFolded = 64;

/// Scalar arithmetic on constants, and what repeats its results.
void ModelImporter::foldSmallConstants() {
  for (Operation &op : llvm::make_early_inc_range(*builder.getInsertionBlock())) {
    bool isKnown = op.getNumOperands() > 0 && op.getNumResults() == 1 &&
                   llvm::all_of(op.getOperands(), [](Value v) { return v.getDefiningOp<graph::ConstantOp>(); });
    if (!isKnown)
      continue;
    auto type = graph::tensorType(op.getResult(0));
    std::optional<DenseElementsAttr> value;
    auto constant = op.getOperand(0).getDefiningOp<graph::ConstantOp>().getValue();
    if (isa<graph::BroadcastOp>(op) && constant.isSplat())
      value = cast<DenseElementsAttr>(constant).resizeSplat(type);
    else if (type.getNumElements() <= maxFolded)
      value = evaluate(op.getResult(0));
    if (!value)
      continue;
    builder.setInsertionPoint(&op);
    Value folded = graph::ConstantOp::create(builder, op.getLoc(), *value);
    op.getResult(0).replaceAllUsesWith(folded);
    arguments->replaceResult(op.getResult(0), folded);
  }
  builder.setInsertionPointToEnd(builder.getInsertionBlock());
}

//===- Freezing
//-----------------------------------------------------------------------------------------------------===//

/// A name against a pattern with * and ?.
static bool matches(llvm::StringRef pattern, llvm::StringRef name) {
  size_t p = 0, n = 0, star = llvm::StringRef::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++, resume = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p, ++n;
    } else if (star != llvm::StringRef::npos) {
      p = star + 1, n = ++resume;
    } else {
      return false;
    }
  }
  return pattern.substr(p).find_first_not_of('*') == llvm::StringRef::npos;
}

void ModelImporter::freezeWeights() {
  for (const std::string &pattern : options.freeze) {
    bool found = false;
    for (auto &argument : arguments->all())
      if (argument.role == Role::parameter && matches(pattern, argument.name))
        found = argument.isFrozen = true;
    if (!found)
      fail("--freeze ", pattern, " names no parameter of the model");
  }
}

//===- Hazards
//------------------------------------------------------------------------------------------------------===//

/// A name that an exporter makes up, for values that it has computed or merged.
static bool isMadeUp(llvm::StringRef name) {
  static const llvm::Regex pattern(
      "^(val_[0-9]+|onnx::.*|_val_.*|[0-9]+|const_.*|_?to_copy.*|scalar_tensor.*|.*_folded.*)$");
  return pattern.match(name);
}

/// Names of parameters, the first few of them.
static std::string listOf(ArrayRef<std::string> names) {
  return llvm::join(names.take_front(3), ", ") + (names.size() > 3 ? ", ..." : "");
}

void ModelImporter::warnOfHazards() {
  static constexpr const char *advice =
      "export with torch.onnx.export(..., dynamo=False, training=TrainingMode.TRAINING, "
      "do_constant_folding=False), or with dynamo=True, optimize=False";
  SmallVector<std::string> madeUp;
  size_t parameters = 0, trainable = 0;
  for (auto &argument : arguments->all()) {
    if (argument.role != Role::parameter)
      continue;
    ++parameters;
    trainable += !argument.isFrozen;
    if (isMadeUp(argument.name) && !argument.isFrozen)
      madeUp.push_back(argument.name);
  }
  if (!trainable)
    fail(parameters ? "all parameters of the model are frozen: nothing is left to train"
                    : "the model has no parameter to train: its weights are not floating-point initializers");
  if (madeUp.size() * 4 >= parameters)
    warn(textOf(madeUp.size(), " of ", parameters, " parameters have names that the exporter made up (", listOf(madeUp),
                "): it has folded, merged or transposed the weights, and they train as they are now; ", advice));
  else if (!madeUp.empty())
    warn(textOf("parameters with names that the exporter made up are trained (", listOf(madeUp),
                "); if they are constants of the model, freeze them: --freeze '", madeUp[0], "'"));
  std::map<std::string, int> normalizations;
  for (const auto &node : model->graph().node())
    if (llvm::StringRef(node.op_type()).ends_with("Normalization") && node.input_size() > 1)
      ++normalizations[node.input(1)];
  for (auto &[name, count] : normalizations)
    if (count > 1)
      warn(textOf("parameter '", name, "' is shared by ", count,
                  " normalizations: the exporter has merged weights that "
                  "were equal, and they train as one; ",
                  advice));
  if (inferenceBatchNorms && options.batchNormTraining)
    warn(textOf(inferenceBatchNorms, " BatchNormalization nodes were exported in inference form and are trained in "
                                     "training form; --batch-norm=inference keeps them"));
  if (inactiveDropouts)
    warn(textOf(inactiveDropouts,
                " Dropout nodes were exported in inference form and do nothing; export in training mode "
                "to train with dropout"));
}

//===- Weights and skeleton
//-----------------------------------------------------------------------------------------===//

std::vector<Weight> ModelImporter::takeWeights() {
  std::vector<Weight> weights;
  for (auto &argument : arguments->all())
    if (argument.role == Role::parameter || argument.role == Role::buffer)
      weights.push_back({argument.name, argument.data.type, argument.data.bytes, argument.data.owner});
  return weights;
}

/// Takes the weights' own bytes out of the model, and the model without them as the file's bytes.
std::string ModelImporter::takeSkeleton(std::vector<Weight> &weights) {
  std::map<std::string, Weight *> taken;
  for (Weight &weight : weights)
    taken[weight.name] = &weight;
  auto *graph = model->mutable_graph();
  google::protobuf::RepeatedPtrField<onnx::TensorProto> kept;
  for (auto &tensor : *graph->mutable_initializer()) {
    auto it = taken.find(tensor.name());
    if (it == taken.end()) {
      if (tensor.data_location() == onnx::TensorProto::EXTERNAL)
        inlineExternal(tensor);
      kept.Add()->Swap(&tensor);
    } else if (it->second->owner == model) {
      std::shared_ptr<std::string> bytes(tensor.release_raw_data());
      it->second->bytes = ArrayRef<char>(bytes->data(), bytes->size());
      it->second->owner = bytes;
    }
  }
  graph->mutable_initializer()->Swap(&kept);
  return model->SerializePartialAsString();
}

/// A skeleton has no files beside it.
void ModelImporter::inlineExternal(onnx::TensorProto &tensor) {
  TensorData data = reader.read(tensor, nullptr);
  if (data.missing)
    return;
  tensor.set_raw_data(data.bytes.data(), data.bytes.size());
  tensor.clear_external_data();
  tensor.clear_data_location();
}
