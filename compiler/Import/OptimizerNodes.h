#pragma once
#include "compiler/Import/Proto.h"
#include "passes/Training/OptimizerSettings.h"

#include <string>

namespace divisi::compiler {

/// The domain of ONNX's optimizers and of Gradient.
inline constexpr llvm::StringLiteral trainingDomain = "ai.onnx.preview.training";

/// Whether a node is Adagrad, Adam or Momentum of this domain.
bool isOptimizer(const onnx::NodeProto &node);
/// The settings of such a node. Throws ImportError.
training::OptimizerSettings settingsOfNode(const onnx::NodeProto &node);
/// Whether two settings differ in nothing.
bool areEqual(const training::OptimizerSettings &a, const training::OptimizerSettings &b);

/// "node 'name' (Operator)", for messages.
std::string labelOf(const onnx::NodeProto &node);
/// An attribute; null if the node has none of the name. Throws ImportError for one of another type.
const onnx::AttributeProto *findAttribute(const onnx::NodeProto &node, llvm::StringRef name, onnx::AttributeProto::AttributeType type);

} // namespace divisi::compiler
