#include "codegen/Lowering/ScalarBuilder.h"
#include "compiler/Import/ModelImporter.h"
#include "passes/Training/Optimizer.h"

using namespace mlir;
using namespace divisi::compiler;
using Role = Signature::Role;

void ModelImporter::eraseUnused() {
  Block *block = builder.getInsertionBlock();
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*block)))
    if (op.use_empty() && !op.hasTrait<OpTrait::IsTerminator>() && !arguments->isResult(&op))
      op.erase();
}

/// The largest constant that is folded for a more readable module, and the largest one that is folded because each step would spend
/// a kernel of its own, with little parallelism, on it.
static constexpr int64_t maxFolded = 64, maxSerialFolded = 1 << 18;
/// Scalar operations that all folding may take, some two seconds, and that of one value. The rest is computed in each step.
static constexpr int64_t maxFoldedOperations = 1 << 21, maxOfOneValue = maxFoldedOperations / 2;

/// Folds operations on constants whose results are small, broadcasts of splats, and what updates a constant in a fixed order (as
/// assignments to slices do when a mask is made).
void ModelImporter::foldConstants() {
  int64_t left = maxFoldedOperations;
  auto within = [&](Value result) {
    const int64_t most = std::min(left, maxOfOneValue);
    int64_t budget = most;
    auto value = evaluate(result, budget);
    left -= most - std::max<int64_t>(budget, 0);
    return value;
  };
  auto isSmall = [](Value value) { return graph::tensorType(value).getNumElements() <= maxSerialFolded; };
  for (Operation &op : llvm::make_early_inc_range(*builder.getInsertionBlock())) {
    if (op.getNumOperands() == 0 || op.getNumResults() != 1)
      continue;
    auto type = graph::tensorType(op.getResult(0));
    std::optional<DenseElementsAttr> value;
    if (isa<codegen::SerialInterface>(op)) {
      if (isSmall(op.getResult(0)) && llvm::all_of(op.getOperands(), isSmall))
        value = within(op.getResult(0));
    } else if (llvm::all_of(op.getOperands(), [](Value v) { return v.getDefiningOp<graph::ConstantOp>(); })) {
      auto constant = op.getOperand(0).getDefiningOp<graph::ConstantOp>().getValue();
      if (isa<graph::BroadcastOp>(op) && constant.isSplat())
        value = cast<DenseElementsAttr>(constant).resizeSplat(type);
      else if (type.getNumElements() <= maxFolded)
        value = within(op.getResult(0));
    }
    if (!value)
      continue;
    builder.setInsertionPoint(&op);
    Value folded = graph::ConstantOp::create(builder, op.getLoc(), *value);
    op.getResult(0).replaceAllUsesWith(folded);
    arguments->replaceResult(op.getResult(0), folded);
  }
  builder.setInsertionPointToEnd(builder.getInsertionBlock());
}

//===- Weights and skeleton -----------------------------------------------===//

/// Notes the file's optimizer in the module, for flags that name none.
void ModelImporter::noteTraining() {
  if (!training || !training->optimizer.settings)
    return;
  const TrainingInfo::Optimizer &optimizer = training->optimizer;
  NamedAttrList settings(divisi::training::toAttr(*optimizer.settings, &context));
  if (optimizer.learningRate)
    settings.set("lr", builder.getF64FloatAttr(*optimizer.learningRate));
  (*module)->setAttr(graph::names::optimizer, settings.getDictionary(&context));
}

std::vector<Weight> ModelImporter::takeWeights() {
  std::vector<Weight> weights;
  for (auto &argument : arguments->all())
    if (argument.role == Role::parameter || argument.role == Role::buffer)
      weights.push_back({argument.name, argument.data.type, argument.data.bytes, argument.data.owner});
  return weights;
}

/// A message without weights, as bytes. Protocol buffers have a limit of 2 GiB.
static std::string serialised(const google::protobuf::Message &message, const char *what) {
  if (message.ByteSizeLong() > INT32_MAX)
    fail("the ", what, " without its weights has ", message.ByteSizeLong() >> 20, " MiB: a program holds 2048 MiB of tensors that do not train at most");
  return message.SerializePartialAsString();
}

/// The values that the program has instead of the file's training_info, which is taken out of the model.
TrainingBindings ModelImporter::takeTraining(const std::vector<Weight> &weights) {
  TrainingBindings bindings;
  bindings.initials = training->initials;
  auto &algorithm = *model->mutable_training_info(0)->mutable_algorithm();
  llvm::StringMap<const Weight *> byName;
  for (const Weight &weight : weights)
    byName[weight.name] = &weight;
  std::set<std::string> taken;
  llvm::StringMap<onnx::TensorProto *> initializers;
  for (auto *graph : {&algorithm, model->mutable_graph()})
    for (auto &tensor : *graph->mutable_initializer())
      initializers.try_emplace(tensor.name(), &tensor);
  for (const auto &state : training->optimizer.states) {
    auto parameter = byName.find(state.of);
    if (parameter == byName.end() || trains->of(state.of).role != TensorRole::parameter)
      continue; // the loss does not depend on it, or it is frozen
    auto owner = std::make_shared<onnx::TensorProto>(std::move(*initializers.at(state.name)));
    initializers.at(state.name)->set_name(state.name); // by which it is left out below
    TensorData data = reader.read(*owner, owner);
    if (data.missing)
      fail("training_info: the value of '", state.name, "' is in a file that is missing");
    if (data.type != parameter->second->type)
      fail("training_info: the state '", state.name, "', ", data.type, ", is not of the type of '", state.of, "', ", parameter->second->type);
    bindings.states.push_back({state.of, state.moment, {state.name, data.type, data.bytes, data.owner}});
    taken.insert(state.name);
  }
  if (const std::string &count = training->optimizer.count; !count.empty()) {
    TensorData data = reader.read(*initializers.at(count), nullptr);
    bindings.count = count;
    bindings.countShape = data.type.getShape().vec();
    if (data.missing || data.type.getNumElements() != 1)
      fail("training_info: the count of updates '", count, "' is not one number of the file");
    bindings.updates = integersOf(TensorReader::attribute(data))[0];
    constexpr int64_t most = int64_t(1) << 53;
    if (bindings.updates < 0 || bindings.updates > most)
      fail("training_info: the count of updates '", count, "' is ", bindings.updates, ", which is not from 0 to 2^53");
    taken.insert(count);
  }
  google::protobuf::RepeatedPtrField<onnx::TensorProto> kept;
  for (auto &tensor : *algorithm.mutable_initializer()) {
    if (byName.contains(tensor.name())) {
      bindings.weights.insert(tensor.name());
      continue;
    }
    if (taken.count(tensor.name()))
      continue;
    inlineExternal(tensor);
    kept.Add()->Swap(&tensor);
  }
  // A state can be an initializer of the model's graph. It is then saved as one of the algorithm.
  algorithm.mutable_initializer()->Swap(&kept);
  bindings.info = serialised(model->training_info(0), "training_info");
  model->clear_training_info();
  // What the loss needed of the algorithm leaves the graph; of initializers, after their bytes have been taken.
  auto &graph = *model->mutable_graph();
  graph.mutable_input()->DeleteSubrange(training->inputs, graph.input_size() - training->inputs);
  graph.mutable_node()->DeleteSubrange(training->nodes, graph.node_size() - training->nodes);
  graph.mutable_output()->DeleteSubrange(training->outputs, graph.output_size() - training->outputs);
  return bindings;
}

/// Moves the bytes of weights out of the model, and serialises the model without them.
std::string ModelImporter::takeSkeleton(ImportedModel &imported) {
  std::map<std::string, Weight *> taken;
  for (Weight &weight : imported.weights)
    taken[weight.name] = &weight;
  std::set<std::string> elsewhere; // it is saved with the algorithm
  if (const auto &bindings = imported.training) {
    for (const auto &state : bindings->states)
      elsewhere.insert(state.value.name);
    if (!bindings->count.empty())
      elsewhere.insert(bindings->count);
  }
  auto *graph = model->mutable_graph();
  google::protobuf::RepeatedPtrField<onnx::TensorProto> kept;
  for (auto [i, tensor] : llvm::enumerate(*graph->mutable_initializer())) {
    auto it = taken.find(tensor.name());
    const bool isCopy = training && (int)i >= training->initializers;
    if (it == taken.end()) {
      if (isCopy || elsewhere.count(tensor.name()))
        continue;
      inlineExternal(tensor);
      kept.Add()->Swap(&tensor);
    } else if (it->second->owner == model) {
      std::shared_ptr<std::string> bytes(tensor.release_raw_data());
      it->second->bytes = ArrayRef<char>(bytes->data(), bytes->size());
      it->second->owner = bytes;
    }
  }
  graph->mutable_initializer()->Swap(&kept);
  return serialised(*model, "model");
}

/// Inlines external data, if a tensor has any, because a skeleton has no files beside it.
void ModelImporter::inlineExternal(onnx::TensorProto &tensor) {
  if (tensor.data_location() != onnx::TensorProto::EXTERNAL)
    return;
  TensorData data = reader.read(tensor, nullptr);
  if (data.missing)
    return;
  if (data.bytes.size() > INT32_MAX)
    fail("tensor '", tensor.name(), "' does not train and has ", data.bytes.size() >> 20, " MiB: a program holds 2048 MiB of such tensors at most");
  tensor.set_raw_data(data.bytes.data(), data.bytes.size());
  tensor.clear_external_data();
  tensor.clear_data_location();
}
