#include "compiler/Import/ModelImporter.h"
#include "divisi/suggest.h"

#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;
using namespace divisi::graph;

/// The largest initializer that is not a parameter and becomes a constant in the module, in bytes.
static constexpr int64_t maxInlineBytes = 1 << 16;

//===- Inputs and symbolic dimensions -------------------------------------===//

RankedTensorType ModelImporter::inputType(const onnx::ValueInfoProto &input) {
  const std::string &name = input.name();
  if (!input.type().has_tensor_type())
    fail("input '", name, "' is not a tensor");
  const auto &tensor = input.type().tensor_type();
  if (!tensor.has_shape())
    fail("input '", name, "' has no shape: export the model with the shapes of its inputs");
  CheckedBuilder::Shape shape;
  for (auto [index, dim] : llvm::enumerate(tensor.shape().dim())) {
    if (dim.has_dim_value()) {
      shape.push_back(dim.dim_value());
      continue;
    }
    if (dim.dim_param().empty())
      fail("input '", name, "' does not say the size of dimension ", index,
           ", which has no name either: export the model with a fixed size or a named dimension");
    knownDims.insert(dim.dim_param());
    auto bound = options.dims.find(dim.dim_param());
    shape.push_back(
        bound == options.dims.end() ? 1 : bound->second * (batchDims.count(bound->first) ? options.accumulate : 1));
  }
  try {
    return checkedType(shape, elementTypeOf(&context, tensor.elem_type()));
  } catch (ImportError &error) {
    fail("input '", name, "': ", error.message);
  }
}

/// Finds the dimensions that --accumulate multiplies.
void ModelImporter::findBatch() {
  for (const auto &input : model->graph().input())
    if (const auto &dims = input.type().tensor_type().shape().dim(); !dims.empty() && !dims[0].dim_param().empty())
      batchDims.insert(dims[0].dim_param());
  if (options.accumulate > 1 && batchDims.empty())
    fail("--accumulate ", options.accumulate,
         " multiplies the batch, but this model's is fixed: export the model with a named batch "
         "dimension, or split the batch that it has with --microbatches N");
}

/// Checks that every symbolic dimension is bound, and that every bound name is a symbolic dimension.
void ModelImporter::checkDims() {
  for (const auto &[name, size] : options.dims) {
    if (size < 1)
      fail("--dim ", name, "=", size, ": the size must be positive");
    if (!knownDims.count(name))
      fail("--dim ", name, "=", size, " names no dimension of the model's inputs",
           knownDims.empty() ? ", which have none with a name" : suggestion(name, knownDims));
  }
  for (const auto &input : model->graph().input())
    for (const auto &dim : input.type().tensor_type().shape().dim())
      if (!dim.has_dim_value() && knownDims.count(dim.dim_param()) && !options.dims.count(dim.dim_param())) {
        std::string flags;
        for (const std::string &name : knownDims)
          if (!options.dims.count(name))
            flags += " --dim " + name + "=N";
        fail("input '", input.name(), "' has the symbolic dimension '", dim.dim_param(),
             "', whose size is not known: add", flags);
      }
}

/// Checks names, which become JSON in a manifest.
static void checkNames(const onnx::GraphProto &graph) {
  auto check = [](const char *what, const std::string &name) {
    if (!llvm::json::isUTF8(name))
      fail("the name of ", what, " '", llvm::json::fixUTF8(name), "' is not UTF-8");
  };
  for (const auto &input : graph.input())
    check("input", input.name());
  for (const auto &tensor : graph.initializer())
    check("initializer", tensor.name());
  for (const auto &output : graph.output())
    check("output", output.name());
}

/// Checks that an initializer has the shape of the input for which it is the default.
static void checkDefault(const onnx::ValueInfoProto &input, const onnx::TensorProto &tensor) {
  const auto &type = input.type().tensor_type();
  if (!input.type().has_tensor_type() || !type.has_shape())
    return;
  const auto &dims = type.shape().dim();
  bool same = dims.size() == tensor.dims_size();
  for (int d = 0; same && d < dims.size(); ++d)
    same = !dims[d].has_dim_value() || dims[d].dim_value() == tensor.dims(d);
  if (!same)
    fail("initializer '", tensor.name(), "' does not have the shape of the input of its name");
}

void ModelImporter::importInputs(Scope &scope) {
  checkNames(model->graph());
  std::map<std::string, const onnx::TensorProto *> initializers;
  for (const auto &tensor : model->graph().initializer())
    initializers.emplace(tensor.name(), &tensor);
  findBatch();
  std::vector<std::pair<std::string, RankedTensorType>> inputs;
  for (const auto &input : model->graph().input()) {
    if (auto tensor = initializers.find(input.name()); tensor != initializers.end()) {
      checkDefault(input, *tensor->second);
      continue;
    }
    if (input.name().empty())
      fail("an input has no name");
    inputs.emplace_back(input.name(), inputType(input));
  }
  checkDims();
  for (const auto &[name, type] : inputs) {
    Value value = arguments->add(Signature::Role::input, name, type, NameLoc::get(builder.getStringAttr(name)));
    if (!scope.items.try_emplace(name, value).second)
      fail("input '", name, "' is defined twice");
  }
}

//===- Initializers -------------------------------------------------------===//

void ModelImporter::importInitializers(Scope &scope) {
  if (model->graph().sparse_initializer_size())
    fail("sparse initializers are not supported ('", model->graph().sparse_initializer(0).values().name(), "')");
  for (auto &tensor : *model->mutable_graph()->mutable_initializer())
    importInitializer(tensor, scope);
}

void ModelImporter::importInitializer(onnx::TensorProto &tensor, Scope &scope) {
  if (tensor.name().empty())
    fail("an initializer has no name");
  TensorData data = reader.read(tensor, model);
  Location loc = NameLoc::get(builder.getStringAttr(tensor.name()));
  // A constant in a file beside the model stays an argument, so that the step is the same if that file is missing.
  TensorRole role = trains ? trains->of(tensor.name()).role : TensorRole::constant;
  bool isFloat = isa<FloatType>(data.type.getElementType());
  bool isExternal = isFloat && tensor.data_location() == onnx::TensorProto::EXTERNAL;
  bool isWeight = !options.forwardOnly &&
                  (role != TensorRole::constant || isExternal || storedBytes(data.type) > maxInlineBytes);
  if (data.missing && !isWeight)
    fail("tensor '", tensor.name(), "': its value is needed, but its external data file is missing");
  Value value = isWeight ? arguments->addWeight(tensor.name(), data, loc)
                         : ConstantOp::create(builder, loc, TensorReader::attribute(data)).getResult();
  if (isWeight)
    arguments->all().back().isFrozen = role == TensorRole::constant || role == TensorRole::frozen;
  if (!scope.items.try_emplace(tensor.name(), value).second)
    fail("initializer '", tensor.name(), "' has the name of another value");
}

/// Imports the initializers of a branch as constants.
void ModelImporter::importConstants(const onnx::GraphProto &graph, Scope &scope) {
  for (const auto &tensor : graph.initializer()) {
    Location loc = NameLoc::get(builder.getStringAttr(tensor.name()));
    Value value = ConstantOp::create(builder, loc, reader.attribute(tensor));
    if (!scope.items.try_emplace(tensor.name(), value).second)
      fail("initializer '", tensor.name(), "' has the name of another value");
  }
}
