#include "compiler/Import/TrainingInfo.h"
#include "passes/Training/Optimizer.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <cmath>

using namespace divisi;
using namespace divisi::compiler;
using llvm::StringRef;
using onnx::AttributeProto;
using onnx::NodeProto;
using training::OptimizerSettings;

static constexpr StringRef domain = "ai.onnx.preview.training";
static constexpr const char *remedy = "; --loss and --optimizer train the model without the file's training_info";

static bool isOptimizer(const NodeProto &node) {
  return node.domain() == domain && llvm::is_contained({"Adagrad", "Adam", "Momentum"}, node.op_type());
}

static std::string labelOf(const NodeProto &node) {
  const std::string &name = node.name().empty() ? node.output_size() ? node.output(0) : node.op_type() : node.name();
  return textOf("node '", name, "' (", operatorName(node), ")");
}

//===- Attributes ---------------------------------------------------------===//

static const AttributeProto *findAttribute(const NodeProto &node, StringRef name, AttributeProto::AttributeType type) {
  for (const AttributeProto &attribute : node.attribute()) {
    if (attribute.name() != name)
      continue;
    if (attribute.type() != type)
      fail(labelOf(node), " has an attribute '", name, "' of another type than the operator's");
    return &attribute;
  }
  return nullptr;
}

/// A number that is not negative, and below 1 if it says what a moving average keeps.
static double numberOf(const NodeProto &node, StringRef name, float missing, bool isBelowOne = false) {
  const AttributeProto *found = findAttribute(node, name, AttributeProto::FLOAT);
  const double number = found ? found->f() : missing;
  if (!std::isfinite(number) || number < 0 || (isBelowOne && number >= 1))
    fail(labelOf(node), " has the ", name, " ", number, ", which is not a number from 0 on", isBelowOne ? " and below 1" : "");
  return number;
}

OptimizerSettings divisi::compiler::settingsOfNode(const NodeProto &node) {
  OptimizerSettings settings;
  settings.weightDecay = numberOf(node, "norm_coefficient", 0);
  if (node.op_type() == "Momentum") {
    settings.optimizer = "onnx-momentum";
    settings.momentum = numberOf(node, "alpha", 0);
    settings.gradientFactor = numberOf(node, "beta", 0);
    const AttributeProto *mode = findAttribute(node, "mode", AttributeProto::STRING);
    if (!mode || (mode->s() != "standard" && mode->s() != "nesterov"))
      fail("mode '", mode ? mode->s() : "", "' is neither standard nor nesterov");
    settings.nesterov = mode->s() == "nesterov";
  } else if (node.op_type() == "Adagrad") {
    settings.optimizer = "onnx-adagrad";
    settings.eps = numberOf(node, "epsilon", 0);
    settings.decayFactor = numberOf(node, "decay_factor", 0);
  } else {
    settings.optimizer = "onnx-adam";
    settings.beta1 = numberOf(node, "alpha", 0.9f, true);
    settings.beta2 = numberOf(node, "beta", 0.999f, true);
    settings.eps = numberOf(node, "epsilon", 1e-6f);
    settings.decayPost = numberOf(node, "norm_coefficient_post", 0);
  }
  return settings;
}

/// Whether the settings of two nodes differ in nothing.
static bool areEqual(const OptimizerSettings &a, const OptimizerSettings &b) {
  if (a.optimizer != b.optimizer)
    return false;
  return llvm::all_of(training::findOptimizer(a.optimizer)->constants, [&](const training::OptimizerConstant &constant) {
    return constant.number ? a.*constant.number == b.*constant.number : a.*constant.isOn == b.*constant.isOn;
  });
}

//===- The algorithm ------------------------------------------------------===//

namespace {
class Algorithm {
public:
  Algorithm(onnx::ModelProto &model, TensorReader &reader, bool optimizerIsGiven)
      : graph(*model.mutable_graph()), info(model.training_info(0)), algorithm(info.algorithm()), reader(reader),
        optimizerIsGiven(optimizerIsGiven) {
    for (const onnx::GraphProto *owner : {(const onnx::GraphProto *)&graph, &algorithm})
      for (const auto &tensor : owner->initializer())
        initializers.emplace(tensor.name(), &tensor);
    for (const NodeProto &node : algorithm.node())
      for (const std::string &output : node.output())
        if (!output.empty())
          producers.emplace(output, &node);
  }

  std::optional<TrainingInfo> read() {
    if (algorithm.node().empty() && info.update_binding().empty())
      return std::nullopt;
    readGradients();
    for (const auto &binding : info.update_binding())
      if (!bindings.emplace(binding.key(), resolve(binding.value())).second)
        fail("update_binding has '", binding.key(), "' twice");
    for (const auto &[key, value] : bindings)
      bind(key, value);
    if (result.updated.empty())
      fail("it updates no initializer by a gradient", remedy);
    for (const NodeProto *node : optimizers)
      readOptimizer(*node);
    readInitialization();
    copyLoss();
    return std::move(result);
  }

private:
  const NodeProto *producerOf(const std::string &name) const {
    auto it = producers.find(name);
    return it == producers.end() ? nullptr : it->second;
  }
  /// The name of the same value before nodes that copy it.
  std::string resolve(std::string name) const {
    for (size_t steps = 0; steps <= producers.size(); ++steps) { // an invalid graph may be circular
      const NodeProto *node = producerOf(name);
      if (!node || node->op_type() != "Identity" || node->input_size() != 1)
        return name;
      name = node->input(0);
    }
    fail("the algorithm's '", name, "' depends on itself");
  }
  std::string input(const NodeProto &node, int index) const { return index < node.input_size() ? resolve(node.input(index)) : ""; }

  /// Finds the loss and the gradients.
  void readGradients() {
    for (const NodeProto &node : algorithm.node()) {
      if (node.op_type() != "Gradient" || node.domain() != domain)
        continue;
      const auto *xs = findAttribute(node, "xs", AttributeProto::STRINGS);
      const auto *zs = findAttribute(node, "zs", AttributeProto::STRINGS);
      const auto *y = findAttribute(node, "y", AttributeProto::STRING);
      if (!xs || !y || y->s().empty())
        fail(labelOf(node), " has no attributes xs and y");
      std::vector<std::string> names(xs->strings().begin(), xs->strings().end());
      if (zs)
        names.insert(names.end(), zs->strings().begin(), zs->strings().end());
      if (node.input_size() != (int)names.size())
        fail(labelOf(node), " has ", node.input_size(), " inputs, but xs and zs name ", names.size());
      for (auto [i, name] : llvm::enumerate(names))
        if (input(node, i) != name)
          fail(labelOf(node), " takes gradients at other values ('", node.input(i), "') than those of '", name, "'", remedy);
      if (!result.loss.empty() && result.loss != y->s())
        fail("it takes gradients of several losses: '", result.loss, "' and '", y->s(), "'", remedy);
      result.loss = y->s();
      for (int i = 0; i < node.output_size() && i < xs->strings_size(); ++i)
        if (!node.output(i).empty())
          gradients[node.output(i)] = xs->strings(i);
    }
    if (result.loss.empty())
      fail("its algorithm has no Gradient node", remedy);
  }

  /// Whether a value is the gradient of an initializer.
  bool isGradientOf(const std::string &value, const std::string &name) const {
    auto it = gradients.find(value);
    return it != gradients.end() && it->second == name;
  }

  /// Follows one binding: the initializer gets the value after each step.
  void bind(const std::string &name, const std::string &value) {
    auto tensor = initializers.find(name);
    if (tensor == initializers.end())
      fail("update_binding renews '", name, "', which is no initializer");
    const NodeProto *node = producerOf(value);
    if (!node) {
      if (!isStatistics(name, value))
        fail("update_binding renews '", name, "' with '", value, "', which its algorithm does not compute", remedy);
    } else if (isOptimizer(*node)) {
      if (!llvm::is_contained(optimizers, node))
        optimizers.push_back(node);
      int place = std::find(node->output().begin(), node->output().end(), value) - node->output().begin();
      const int count = tensorsOf(*node);
      if (input(*node, 2 + place + (place < count ? 0 : count)) != name) // gradients lie between tensors and states
        fail("update_binding renews '", name, "' with the new value of another tensor of ", labelOf(*node));
      if (place < count)
        result.updated.insert(name);
    } else if (isDescent(*node, name)) {
      result.updated.insert(name);
      use(OptimizerSettings(), *node);
    } else if (isIncrement(*node, name)) {
      if (!result.count.empty())
        fail("it counts updates twice, as '", result.count, "' and '", name, "'");
      result.count = name;
      counted = value;
    } else {
      fail("'", name, "' is renewed by ", labelOf(*node), ", which is neither an optimizer (Adagrad, Adam, Momentum), nor x - r * "
           "gradient, nor a count of updates", remedy);
    }
  }

  /// Whether the value is what batch norm in the model's graph makes of its running statistics.
  bool isStatistics(const std::string &name, const std::string &value) const {
    return llvm::any_of(graph.node(), [&](const NodeProto &node) {
      return node.op_type() == "BatchNormalization" && llvm::is_contained(node.output(), value) &&
             llvm::is_contained(llvm::drop_begin(node.input(), std::min(3, node.input_size())), name);
    });
  }

  /// x - r * gradient; notes r.
  bool isDescent(const NodeProto &node, const std::string &name) {
    if (node.op_type() != "Sub" || node.input_size() != 2 || input(node, 0) != name)
      return false;
    const NodeProto *product = producerOf(input(node, 1));
    if (!product || product->op_type() != "Mul" || product->input_size() != 2)
      return false;
    for (int i : {0, 1})
      if (isGradientOf(input(*product, i), name)) {
        readRate(input(*product, 1 - i), node);
        return true;
      }
    return false;
  }

  bool isIncrement(const NodeProto &node, const std::string &name) {
    if (node.op_type() != "Add" || node.input_size() != 2)
      return false;
    for (int i : {0, 1})
      if (input(node, i) == name && constant(input(node, 1 - i)) == 1.0)
        return initializers.at(name)->data_type() == onnx::TensorProto::INT64;
    return false;
  }

  /// The number of tensors that an optimizer's node updates.
  int tensorsOf(const NodeProto &node) const {
    const int kinds = node.op_type() == "Adam" ? 4 : 3, count = (node.input_size() - 2) / kinds;
    if (count < 1 || count * kinds != node.input_size() - 2)
      fail(labelOf(node), " has ", node.input_size(), " inputs, which are not a learning rate, a step, and ", kinds, " for each tensor");
    return count;
  }

  void readOptimizer(const NodeProto &node) {
    OptimizerSettings settings = settingsOfNode(node);
    const auto rule = training::Optimizer::create(settings);
    const int count = tensorsOf(node);
    readRate(input(node, 0), node);
    settings.countsThis = readCount(input(node, 1), node, settings);
    use(settings, node);
    for (int i = 0; i < count; ++i) {
      std::string name = input(node, 2 + i);
      if (!result.updated.count(name)) {
        if (initializers.count(name))
          continue; // its new value is not used
        fail(labelOf(node), " updates '", name, "', which is no initializer");
      }
      if (!isGradientOf(input(node, 2 + count + i), name))
        fail(labelOf(node), " updates '", name, "' by '", node.input(2 + count + i), "', which is not its gradient", remedy);
      for (auto [s, moment] : llvm::enumerate(rule->moments())) {
        const int place = 2 + (2 + (int)s) * count + i;
        std::string state = input(node, place);
        if (!initializers.count(state) || !bindings.count(state))
          fail(labelOf(node), ": its state '", node.input(place), "' is ", initializers.count(state) ? "not renewed by update_binding" : "no initializer",
               remedy);
        result.states.push_back({name, moment.str(), state});
      }
    }
  }

  /// One optimizer updates all.
  void use(const OptimizerSettings &settings, const NodeProto &node) {
    if (result.optimizer && !areEqual(*result.optimizer, settings) && !optimizerIsGiven)
      fail(labelOf(node), " updates by another rule than the nodes before it", remedy);
    result.optimizer = settings;
  }

  /// A scalar that is known; null for others.
  std::optional<double> constant(const std::string &name) const {
    auto read = [&](const onnx::TensorProto &tensor) -> std::optional<double> {
      TensorData data = reader.read(tensor, nullptr);
      if (data.missing || data.type.getNumElements() != 1)
        return std::nullopt;
      auto value = TensorReader::attribute(data);
      return mlir::isa<mlir::FloatType>(data.type.getElementType()) ? numbersOf(value)[0] : (double)integersOf(value)[0];
    };
    if (auto it = initializers.find(name); it != initializers.end())
      return bindings.count(name) ? std::nullopt : read(*it->second);
    const NodeProto *node = producerOf(name);
    if (!node || node->op_type() != "Constant")
      return std::nullopt;
    for (const AttributeProto &attribute : node->attribute()) {
      if (attribute.name() == "value" && attribute.has_t())
        return read(attribute.t());
      if (attribute.name() == "value_float")
        return attribute.f();
      if (attribute.name() == "value_int")
        return attribute.i();
    }
    return std::nullopt;
  }

  bool isInput(const std::string &name) const {
    return llvm::any_of(algorithm.input(), [&](const auto &value) { return value.name() == name; }) && !initializers.count(name);
  }

  void readRate(const std::string &name, const NodeProto &node) {
    if (optimizerIsGiven || isInput(name)) // an input: --lr gives it
      return;
    auto rate = constant(name);
    if (!rate || !std::isfinite(*rate) || *rate < 0)
      fail(labelOf(node), ": the learning rate '", name, "' is not a constant, finite number from 0 on", remedy);
    if (result.learningRate && *result.learningRate != *rate)
      fail(labelOf(node), " has the learning rate ", *rate, ", another node ", *result.learningRate, remedy);
    result.learningRate = rate;
  }

  /// Whether the count that an optimizer gets counts the present update, too.
  bool readCount(const std::string &name, const NodeProto &node, const OptimizerSettings &settings) const {
    const bool matters = settings.optimizer == "onnx-adam" || settings.decayFactor != 0 || settings.gradientFactor != 1;
    if (!matters || optimizerIsGiven || isInput(name)) // an input: the runtime counts
      return false;
    if (result.count.empty() || (name != result.count && name != counted))
      fail(labelOf(node), ": '", name, "' does not count updates: update_binding renews no int64 initializer with itself plus 1 that it is",
           remedy);
    return name == counted;
  }

  void readInitialization() {
    std::map<std::string, const NodeProto *> makers;
    for (const NodeProto &node : info.initialization().node())
      if (node.output_size() > 0)
        makers[node.output(0)] = &node;
    for (const auto &binding : info.initialization_binding()) {
      if (!initializers.count(binding.key()))
        fail("initialization_binding names '", binding.key(), "', which is no initializer");
      auto maker = makers.find(binding.value());
      auto initial = maker == makers.end() ? std::nullopt : initialBy(*maker->second);
      if (initial)
        result.initials[binding.key()] = *initial;
      else
        result.computed.push_back(binding.key());
    }
  }

  /// What a node of the initialization fills a tensor with; null for operators that compute something else.
  std::optional<InitialValue> initialBy(const NodeProto &node) const {
    auto number = [&](StringRef name, float missing) {
      const AttributeProto *found = findAttribute(node, name, AttributeProto::FLOAT);
      const double value = found ? found->f() : missing;
      if (!std::isfinite(value))
        fail(labelOf(node), " has a ", name, " that is not finite");
      return value;
    };
    StringRef type = node.op_type();
    if (type == "RandomNormal")
      return InitialValue{"normal", number("scale", 1), number("mean", 0)};
    if (type == "RandomUniform") {
      const double low = number("low", 0), high = number("high", 1);
      return InitialValue{"uniform", (high - low) / 2, (high + low) / 2};
    }
    if (type != "ConstantOfShape" && type != "Constant")
      return std::nullopt;
    const AttributeProto *value = findAttribute(node, "value", AttributeProto::TENSOR);
    if (!value)
      return type == "Constant" ? std::nullopt : std::optional(InitialValue{"constant"});
    auto values = TensorReader::attribute(reader.read(value->t(), nullptr));
    if (!values.isSplat() || !mlir::isa<mlir::FloatType>(values.getElementType()))
      return std::nullopt;
    return InitialValue{"constant", numbersOf(values)[0]};
  }

  /// Copies what the loss needs to the model's graph.
  void copyLoss() {
    result.inputs = graph.input_size(), result.initializers = graph.initializer_size();
    result.nodes = graph.node_size(), result.outputs = graph.output_size();
    std::set<const NodeProto *> needed;
    std::vector<std::string> open = {result.loss};
    llvm::StringSet<> names;
    while (!open.empty()) {
      std::string name = std::move(open.back());
      open.pop_back();
      if (!names.insert(name).second)
        continue;
      const NodeProto *node = producerOf(name);
      if (!node || !needed.insert(node).second)
        continue;
      if (node->domain() == domain)
        fail("the loss '", result.loss, "' depends on ", labelOf(*node), remedy);
      addInputs(*node, open);
    }
    for (const auto &value : algorithm.input())
      if (names.contains(value.name()))
        *graph.add_input() = value;
    for (const auto &tensor : algorithm.initializer())
      if (names.contains(tensor.name()))
        *graph.add_initializer() = tensor;
    for (const NodeProto &node : algorithm.node())
      if (needed.count(&node))
        *graph.add_node() = node;
    if (llvm::none_of(graph.output(), [&](const auto &value) { return value.name() == result.loss; }))
      graph.add_output()->set_name(result.loss);
  }

  /// The inputs of a node and of the nodes in its graphs.
  static void addInputs(const NodeProto &node, std::vector<std::string> &names) {
    names.insert(names.end(), node.input().begin(), node.input().end());
    for (const AttributeProto &attribute : node.attribute())
      if (attribute.has_g()) {
        for (const NodeProto &inner : attribute.g().node())
          addInputs(inner, names);
        for (const auto &output : attribute.g().output()) // it may be a value of an enclosing graph
          names.push_back(output.name());
      }
  }

  onnx::GraphProto &graph;
  const onnx::TrainingInfoProto &info;
  const onnx::GraphProto &algorithm;
  TensorReader &reader;
  const bool optimizerIsGiven;
  std::map<std::string, const onnx::TensorProto *> initializers;
  std::map<std::string, const NodeProto *> producers;
  std::map<std::string, std::string> gradients; // by name: of which initializer
  std::map<std::string, std::string> bindings;  // by initializer: its new value
  std::vector<const NodeProto *> optimizers;
  std::string counted; // the new value of the count
  TrainingInfo result;
};
} // namespace

std::optional<TrainingInfo> divisi::compiler::readTrainingInfo(onnx::ModelProto &model, TensorReader &reader, bool optimizerIsGiven) {
  if (model.training_info().empty())
    return std::nullopt;
  try {
    if (model.training_info_size() > 1)
      fail("it has ", model.training_info_size(), " training steps that take turns", remedy);
    auto info = Algorithm(model, reader, optimizerIsGiven).read();
    if (info && optimizerIsGiven)
      info->optimizer.reset(), info->learningRate.reset(), info->states.clear(), info->count.clear();
    return info;
  } catch (ImportError &error) {
    error.message = "the file's training_info: " + error.message;
    throw;
  }
}
