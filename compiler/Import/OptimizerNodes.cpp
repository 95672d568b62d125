#include "compiler/Import/OptimizerNodes.h"
#include "compiler/Import/ImportError.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace divisi;
using namespace divisi::compiler;
using llvm::StringRef;
using onnx::AttributeProto;
using onnx::NodeProto;
using training::OptimizerSettings;

bool divisi::compiler::isOptimizer(const NodeProto &node) {
  return node.domain() == trainingDomain && llvm::is_contained({"Adagrad", "Adam", "Momentum"}, node.op_type());
}

std::string divisi::compiler::labelOf(const NodeProto &node) {
  const std::string &name = node.name().empty() ? node.output_size() ? node.output(0) : node.op_type() : node.name();
  return textOf("node '", name, "' (", operatorName(node), ")");
}

const AttributeProto *divisi::compiler::findAttribute(const NodeProto &node, StringRef name, AttributeProto::AttributeType type) {
  for (const AttributeProto &attribute : node.attribute()) {
    if (attribute.name() != name)
      continue;
    if (attribute.type() != type)
      fail(labelOf(node), " has an attribute '", name, "' of another type than the operator's");
    return &attribute;
  }
  return nullptr;
}

/// A number that is not negative, and below 1 if it says what a moving average keeps. Without `missing` it must be there.
static double numberOf(const NodeProto &node, StringRef name, std::optional<float> missing, bool isBelowOne = false) {
  const AttributeProto *found = findAttribute(node, name, AttributeProto::FLOAT);
  if (!found && !missing)
    fail(labelOf(node), " lacks the attribute '", name, "'");
  const double number = found ? found->f() : *missing;
  if (!std::isfinite(number) || number < 0 || (isBelowOne && number >= 1))
    fail(labelOf(node), " has the ", name, " ", number, ", which is not a number from 0 on", isBelowOne ? " and below 1" : "");
  return number;
}

OptimizerSettings divisi::compiler::settingsOfNode(const NodeProto &node) {
  OptimizerSettings settings;
  if (node.op_type() == "Momentum") {
    settings.optimizer = "onnx-momentum";
    settings.momentum = numberOf(node, "alpha", std::nullopt);
    settings.gradientFactor = numberOf(node, "beta", std::nullopt);
    settings.weightDecay = numberOf(node, "norm_coefficient", std::nullopt);
    const AttributeProto *mode = findAttribute(node, "mode", AttributeProto::STRING);
    if (!mode || (mode->s() != "standard" && mode->s() != "nesterov"))
      fail(labelOf(node), " has the mode '", mode ? mode->s() : "", "', which is neither standard nor nesterov");
    settings.nesterov = mode->s() == "nesterov";
    return settings;
  }
  settings.weightDecay = numberOf(node, "norm_coefficient", 0);
  settings.eps = numberOf(node, "epsilon", 1e-6f);
  if (node.op_type() == "Adagrad") {
    settings.optimizer = "onnx-adagrad";
    settings.decayFactor = numberOf(node, "decay_factor", 0);
  } else {
    settings.optimizer = "onnx-adam";
    settings.beta1 = numberOf(node, "alpha", 0.9f, true);
    settings.beta2 = numberOf(node, "beta", 0.999f, true);
    settings.decayPost = numberOf(node, "norm_coefficient_post", 0);
  }
  return settings;
}

bool divisi::compiler::areEqual(const OptimizerSettings &a, const OptimizerSettings &b) {
  if (a.optimizer != b.optimizer)
    return false;
  return llvm::all_of(training::findOptimizer(a.optimizer)->constants, [&](const training::OptimizerConstant &constant) {
    return constant.number ? a.*constant.number == b.*constant.number : a.*constant.isOn == b.*constant.isOn;
  });
}
