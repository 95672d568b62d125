#include "compiler/Import/Widen.h"

#include <bit>
#include <cstring>

using namespace divisi::compiler;
using onnx::TensorProto;

namespace {
class Widening {
public:
  explicit Widening(TensorReader &reader) : reader(reader) {}

  void graph(onnx::GraphProto &graph) {
    for (auto &tensor : *graph.mutable_initializer())
      this->tensor(tensor);
    for (auto *values : {graph.mutable_input(), graph.mutable_output(), graph.mutable_value_info()})
      for (auto &value : *values)
        if (value.has_type())
          type(*value.mutable_type());
    nodes(*graph.mutable_node());
  }
  void nodes(google::protobuf::RepeatedPtrField<onnx::NodeProto> &nodes) {
    for (auto &node : nodes)
      for (auto &attribute : *node.mutable_attribute())
        this->attribute(attribute);
  }

  bool halves = false, brains = false; // values of float16 and of bfloat16
  bool others = false;                 // tensors of float32

private:
  /// Whether it is an element type of 16 bits.
  bool isHalf(int64_t element) {
    halves |= element == TensorProto::FLOAT16;
    brains |= element == TensorProto::BFLOAT16;
    return element == TensorProto::FLOAT16 || element == TensorProto::BFLOAT16;
  }

  void type(onnx::TypeProto &type) {
    if (type.has_sequence_type())
      return this->type(*type.mutable_sequence_type()->mutable_elem_type());
    if (type.has_optional_type())
      return this->type(*type.mutable_optional_type()->mutable_elem_type());
    if (type.has_tensor_type() && isHalf(type.tensor_type().elem_type()))
      type.mutable_tensor_type()->set_elem_type(TensorProto::FLOAT);
  }

  void tensor(TensorProto &tensor) {
    others |= tensor.data_type() == TensorProto::FLOAT;
    if (!isHalf(tensor.data_type()))
      return;
    TensorData data = reader.read(tensor, nullptr);
    bool isBrain = tensor.data_type() == TensorProto::BFLOAT16;
    tensor.set_data_type(TensorProto::FLOAT);
    if (data.missing) // its shape is all that is known
      return;
    std::string wide(data.bytes.size() * 2, '\0');
    for (size_t i = 0, count = data.bytes.size() / 2; i < count; ++i) {
      uint16_t bits;
      std::memcpy(&bits, data.bytes.data() + 2 * i, 2);
      float value = isBrain ? std::bit_cast<float>((uint32_t)bits << 16) : (float)std::bit_cast<_Float16>(bits);
      std::memcpy(wide.data() + 4 * i, &value, 4);
    }
    tensor.clear_int32_data();
    tensor.clear_external_data();
    tensor.clear_data_location();
    tensor.set_raw_data(std::move(wide));
  }

  void attribute(onnx::AttributeProto &attribute) {
    static constexpr llvm::StringRef types[] = {"to", "dtype", "output_datatype", "output_dtype", "stash_type", "softmax_precision"};
    if (attribute.has_t())
      tensor(*attribute.mutable_t());
    for (auto &element : *attribute.mutable_tensors())
      tensor(element);
    if (attribute.has_g())
      graph(*attribute.mutable_g());
    if (attribute.has_i() && llvm::is_contained(types, attribute.name()) && isHalf(attribute.i()))
      attribute.set_i(TensorProto::FLOAT);
  }

  TensorReader &reader;
};
} // namespace

std::string divisi::compiler::widenHalves(onnx::ModelProto &model, TensorReader &reader) {
  Widening widening(reader);
  widening.graph(*model.mutable_graph());
  for (auto &info : *model.mutable_training_info())
    for (auto *graph : {info.mutable_algorithm(), info.mutable_initialization()})
      widening.graph(*graph);
  for (auto &function : *model.mutable_functions())
    widening.nodes(*function.mutable_node());
  if (!widening.halves && !widening.brains)
    return "";
  const char *types = !widening.brains ? "float16" : !widening.halves ? "bfloat16" : "float16 and bfloat16";
  const char *flag = widening.halves ? "--precision fp16" : "--precision bf16";
  return textOf(widening.others ? "parts of the model are in " : "the model is in ", types, widening.others ? ": they are" : ": it is",
                " read, trained and saved as float32; ", flag, " multiplies in ", widening.halves ? "float16" : "bfloat16");
}
