#pragma once
#include "compiler/Import/Import.h"

#include <onnx/onnx_pb.h>

#include <random>

namespace divisi::compiler {

/// Damages models in ways that protobuf still parses: numbers, types, names, operators.
class Mutator {
public:
  explicit Mutator(unsigned seed) : random(seed), operators(supportedOperators()) {}

  void mutate(onnx::ModelProto &model) {
    auto &graph = *model.mutable_graph();
    if (!graph.node_size())
      return;
    auto &node = *graph.mutable_node(pick(graph.node_size()));
    switch (pick(8)) {
    case 0:
    case 1:
      return mutateAttribute(node);
    case 2:
      return mutateTensor(graph);
    case 3:
      return mutateInput(graph);
    case 4:
      return renameInput(graph, node);
    case 5:
      return node.set_op_type(operators[pick(operators.size())]);
    case 6:
      return addAttribute(node);
    default:
      if (node.input_size() && pick(2))
        node.mutable_input()->RemoveLast();
      else
        *node.add_input() = graph.node(pick(graph.node_size())).input_size() ? someName(graph) : "";
    }
  }

private:
  size_t pick(size_t count) { return count ? random() % count : 0; }
  int64_t number() {
    static constexpr int64_t odd[] = {0,         1,         -1,        2,         -2,        3,
                                      7,         -100,      INT8_MAX,  INT16_MAX, INT32_MAX, INT32_MIN,
                                      INT64_MAX, INT64_MIN, 1LL << 40, 1LL << 33};
    return odd[pick(std::size(odd))];
  }
  float real() {
    static constexpr float odd[] = {0,
                                    -1,
                                    0.5,
                                    1e30f,
                                    -1e30f,
                                    1e-30f,
                                    std::numeric_limits<float>::infinity(),
                                    std::numeric_limits<float>::quiet_NaN()};
    return odd[pick(std::size(odd))];
  }
  std::string someName(const onnx::GraphProto &graph) {
    const auto &node = graph.node(pick(graph.node_size()));
    if (node.output_size() && pick(3))
      return node.output(pick(node.output_size()));
    if (graph.initializer_size() && pick(2))
      return graph.initializer(pick(graph.initializer_size())).name();
    return graph.input_size() ? graph.input(pick(graph.input_size())).name() : "";
  }

  void mutateAttribute(onnx::NodeProto &node) {
    if (!node.attribute_size())
      return addAttribute(node);
    auto &attribute = *node.mutable_attribute(pick(node.attribute_size()));
    if (attribute.ints_size())
      attribute.set_ints(pick(attribute.ints_size()), number());
    if (attribute.has_i())
      attribute.set_i(number());
    if (attribute.has_f())
      attribute.set_f(real());
    if (attribute.has_s())
      attribute.mutable_s()->append("x");
    if (attribute.has_t())
      mutateData(*attribute.mutable_t());
    if (pick(4) == 0)
      attribute.add_ints(number());
    if (pick(8) == 0)
      attribute.set_type(static_cast<onnx::AttributeProto::AttributeType>(pick(15)));
  }
  void addAttribute(onnx::NodeProto &node) {
    static const char *const names[] = {"axis",           "axes",
                                        "keepdims",       "perm",
                                        "strides",        "pads",
                                        "dilations",      "group",
                                        "epsilon",        "to",
                                        "value",          "kernel_shape",
                                        "mode",           "auto_pad",
                                        "split",          "k",
                                        "blocksize",      "size",
                                        "num_groups",     "depth",
                                        "batch_dims",     "output_shape",
                                        "output_padding", "equation",
                                        "ceil_mode",      "storage_order",
                                        "q_num_heads",    "kv_num_heads",
                                        "num_heads",      "scales",
                                        "alpha"};
    auto &attribute = *node.add_attribute();
    attribute.set_name(names[pick(std::size(names))]);
    if (pick(2)) {
      attribute.set_i(number());
      attribute.set_type(onnx::AttributeProto::INT);
    } else {
      for (size_t count = pick(6); count > 0; --count)
        attribute.add_ints(number());
      attribute.set_type(onnx::AttributeProto::INTS);
    }
  }

  /// In half of the cases keeps the number of bytes that the dimensions require.
  void mutateData(onnx::TensorProto &tensor) {
    switch (pick(5)) {
    case 0:
      if (tensor.dims_size())
        tensor.set_dims(pick(tensor.dims_size()), number());
      return;
    case 1:
      tensor.add_dims(pick(2) ? 1 : number());
      return;
    case 2:
      tensor.set_data_type(pick(20));
      return;
    case 3:
      for (int i = 0; i < tensor.int64_data_size(); ++i)
        tensor.set_int64_data(i, number());
      if (tensor.raw_data().size() >= 8) {
        int64_t value = number();
        tensor.mutable_raw_data()->replace(pick(tensor.raw_data().size() / 8) * 8, 8, reinterpret_cast<char *>(&value),
                                           8);
      }
      return;
    default:
      tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    }
  }
  void mutateTensor(onnx::GraphProto &graph) {
    if (graph.initializer_size())
      mutateData(*graph.mutable_initializer(pick(graph.initializer_size())));
  }
  void mutateInput(onnx::GraphProto &graph) {
    if (!graph.input_size())
      return;
    auto &tensor = *graph.mutable_input(pick(graph.input_size()))->mutable_type()->mutable_tensor_type();
    if (pick(4) == 0)
      return tensor.set_elem_type(pick(20));
    auto &shape = *tensor.mutable_shape();
    if (shape.dim_size() && pick(3))
      shape.mutable_dim(pick(shape.dim_size()))->set_dim_value(number());
    else
      shape.add_dim()->set_dim_value(pick(5));
  }
  void renameInput(onnx::GraphProto &graph, onnx::NodeProto &node) {
    if (node.input_size())
      node.set_input(pick(node.input_size()), pick(6) ? someName(graph) : "");
  }

  std::mt19937 random;
  std::vector<std::string> operators;
};

} // namespace divisi::compiler
