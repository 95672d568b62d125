#pragma once
#include "compiler/Import/Import.h"
#include "dialects/Graph/Nodes.h"

#include "mlir/IR/Diagnostics.h"

#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <filesystem>
#include <fstream>

namespace divisi::compiler {

using Dim = std::variant<int64_t, std::string>; // a size, or a symbolic dimension's name

/// Writes small ONNX models.
class ModelMaker {
public:
  explicit ModelMaker(int64_t opset = 17) {
    model.set_ir_version(8);
    auto *entry = model.add_opset_import();
    entry->set_domain("");
    entry->set_version(opset);
    model.mutable_graph()->set_name("g");
  }

  static void setType(onnx::ValueInfoProto &value, const std::string &name, std::vector<Dim> shape, int type) {
    value.set_name(name);
    auto *tensor = value.mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    tensor->mutable_shape();
    for (const Dim &dim : shape) {
      auto *added = tensor->mutable_shape()->add_dim();
      if (auto *size = std::get_if<int64_t>(&dim))
        added->set_dim_value(*size);
      else if (!std::get<std::string>(dim).empty())
        added->set_dim_param(std::get<std::string>(dim));
    }
  }
  ModelMaker &input(const std::string &name, std::vector<Dim> shape, int type = onnx::TensorProto::FLOAT) {
    setType(*model.mutable_graph()->add_input(), name, std::move(shape), type);
    return *this;
  }
  ModelMaker &output(const std::string &name, std::vector<Dim> shape = {}, int type = onnx::TensorProto::FLOAT) {
    setType(*model.mutable_graph()->add_output(), name, std::move(shape), type);
    if (shape.empty())
      model.mutable_graph()->mutable_output()->rbegin()->mutable_type()->mutable_tensor_type()->clear_shape();
    return *this;
  }
  /// A float initializer with the values 0, 1, 2, ...
  ModelMaker &weight(const std::string &name, std::vector<int64_t> shape) {
    auto *tensor = model.mutable_graph()->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    std::vector<float> values(1);
    for (int64_t size : shape) {
      tensor->add_dims(size);
      values.resize(values.size() * size);
    }
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = (float)i;
    tensor->set_raw_data(values.data(), values.size() * sizeof(float));
    return *this;
  }
  ModelMaker &integers(const std::string &name, std::vector<int64_t> values) {
    auto *tensor = model.mutable_graph()->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnx::TensorProto::INT64);
    tensor->add_dims((int64_t)values.size());
    for (int64_t value : values)
      tensor->add_int64_data(value);
    return *this;
  }
  static onnx::NodeProto &fill(onnx::NodeProto &node, const std::string &type, std::vector<std::string> inputs,
                               std::vector<std::string> outputs, const std::string &name) {
    node.set_op_type(type);
    node.set_name(name);
    for (auto &input : inputs)
      node.add_input(input);
    for (auto &output : outputs)
      node.add_output(output);
    return node;
  }
  onnx::NodeProto &node(const std::string &type, std::vector<std::string> inputs, std::vector<std::string> outputs,
                        const std::string &name = "") {
    return fill(*model.mutable_graph()->add_node(), type, std::move(inputs), std::move(outputs), name);
  }

  onnx::ModelProto model;
};

inline onnx::AttributeProto &attribute(onnx::NodeProto &node, const std::string &name,
                                       onnx::AttributeProto::AttributeType type) {
  auto *added = node.add_attribute();
  added->set_name(name);
  added->set_type(type);
  return *added;
}
inline void setInteger(onnx::NodeProto &node, const std::string &name, int64_t value) {
  attribute(node, name, onnx::AttributeProto::INT).set_i(value);
}
inline void setText(onnx::NodeProto &node, const std::string &name, const std::string &value) {
  attribute(node, name, onnx::AttributeProto::STRING).set_s(value);
}
inline void setIntegers(onnx::NodeProto &node, const std::string &name, std::vector<int64_t> values) {
  auto &added = attribute(node, name, onnx::AttributeProto::INTS);
  for (int64_t value : values)
    added.add_ints(value);
}

inline void setFloats(onnx::NodeProto &node, const std::string &name, std::vector<float> values) {
  auto &added = attribute(node, name, onnx::AttributeProto::FLOATS);
  for (float value : values)
    added.add_floats(value);
}

/// A temporary folder for a test, and the diagnostics of imports.
class ImportTest : public testing::Test {
protected:
  ImportTest() {
    folder = std::filesystem::temp_directory_path() / ("divisi-import-" + std::to_string(getpid()) + "-" +
                                                       std::to_string(testing::UnitTest::GetInstance()->random_seed()));
    std::filesystem::create_directories(folder / "model");
  }
  ~ImportTest() override { std::filesystem::remove_all(folder); }

  mlir::FailureOr<ImportedModel> importBytes(const std::string &bytes) {
    errors.clear();
    std::string path = folder / "model" / "net.onnx";
    std::ofstream(path, std::ios::binary) << bytes;
    mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
      errors.push_back(diagnostic.str());
      return mlir::success();
    });
    return importOnnx(context, path, options);
  }
  mlir::FailureOr<ImportedModel> import(const ModelMaker &maker) {
    return importBytes(maker.model.SerializePartialAsString());
  }
  /// The module's text without identities, or "" after a failure.
  std::string text(const ModelMaker &maker) {
    auto model = import(maker);
    EXPECT_TRUE(mlir::succeeded(model)) << error();
    std::string result;
    if (mlir::succeeded(model)) {
      llvm::raw_string_ostream stream(result);
      divisi::graph::HiddenNodes hidden(*model->module);
      model->module->print(stream);
      warnings = model->warnings;
    }
    return result;
  }
  /// The one diagnostic of an import that must fail.
  std::string failure(const ModelMaker &maker) {
    EXPECT_TRUE(mlir::failed(import(maker)));
    EXPECT_EQ(errors.size(), 1u);
    return error();
  }
  std::string error() { return errors.empty() ? "" : errors.front(); }

  static bool contains(const std::string &text, const std::string &part) {
    return text.find(part) != std::string::npos;
  }

  std::filesystem::path folder;
  mlir::MLIRContext context;
  ImportOptions options;
  std::vector<std::string> errors, warnings;
};

#define EXPECT_HAS(TEXT, PART) EXPECT_TRUE(contains(TEXT, PART)) << (TEXT)
#define EXPECT_LACKS(TEXT, PART) EXPECT_FALSE(contains(TEXT, PART)) << (TEXT)

/// A linear layer with cross entropy.
inline ModelMaker classifier(Dim batch = 4) {
  ModelMaker m;
  m.input("x", {batch, 3}).input("label", {batch}, onnx::TensorProto::INT64).weight("fc.weight", {5, 3});
  m.weight("fc.bias", {5}).output("loss").output("logits");
  setInteger(m.node("Gemm", {"x", "fc.weight", "fc.bias"}, {"logits"}, "fc/Gemm"), "transB", 1);
  m.node("SoftmaxCrossEntropyLoss", {"logits", "label"}, {"loss"}, "criterion");
  return m;
}

} // namespace divisi::compiler
