#include "codegen/Lowering/ScalarBuilder.h"
#include "compiler/Import/ModelImporter.h"

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

std::vector<Weight> ModelImporter::takeWeights() {
  std::vector<Weight> weights;
  for (auto &argument : arguments->all())
    if (argument.role == Role::parameter || argument.role == Role::buffer)
      weights.push_back({argument.name, argument.data.type, argument.data.bytes, argument.data.owner});
  return weights;
}

/// Moves the bytes of weights out of the model, and serialises the model without them.
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

/// Inlines external data, because a skeleton has no files beside it.
void ModelImporter::inlineExternal(onnx::TensorProto &tensor) {
  TensorData data = reader.read(tensor, nullptr);
  if (data.missing)
    return;
  tensor.set_raw_data(data.bytes.data(), data.bytes.size());
  tensor.clear_external_data();
  tensor.clear_data_location();
}
