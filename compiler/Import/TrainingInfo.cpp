#include "compiler/Import/TrainingInfo.h"
#include "compiler/Import/OptimizerNodes.h"
#include "passes/Training/Optimizer.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/JSON.h"

#include <cmath>

using namespace divisi;
using namespace divisi::compiler;
using llvm::StringRef;
using onnx::AttributeProto;
using onnx::NodeProto;
using training::OptimizerSettings;

static constexpr const char *remedy = "; --loss and --optimizer train the model without the file's training_info";

/// Whether a node is this operator of the main domain.
static bool isMain(const NodeProto &node, StringRef type) { return node.op_type() == type && isMainDomain(node.domain()); }

namespace {
class Algorithm {
public:
  Algorithm(onnx::ModelProto &model, TensorReader &reader, bool optimizerIsGiven)
      : graph(*model.mutable_graph()), info(model.training_info(0)), algorithm(info.algorithm()), reader(reader),
        optimizerIsGiven(optimizerIsGiven) {
    checkNames();
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
        fail("update_binding has '", binding.key(), "' twice", remedy);
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
  /// The algorithm's names are texts, and of one value each: those of the model's graph, to which it is appended, included.
  void checkNames() const {
    llvm::StringSet<> names;
    for (const NodeProto &node : graph.node())
      for (const std::string &output : node.output())
        names.insert(output);
    for (const auto &tensor : graph.initializer())
      names.insert(tensor.name());
    for (const auto &value : graph.input())
      names.insert(value.name());
    llvm::StringSet<> defaults; // inputs that are initializers, too
    auto add = [&](const std::string &name) {
      if (!llvm::json::isUTF8(name))
        fail("the name '", llvm::json::fixUTF8(name), "' is not UTF-8");
      if (!name.empty() && !names.insert(name).second)
        fail("'", name, "' is the name of two values, of which the algorithm has one or both");
    };
    for (const auto &tensor : algorithm.initializer()) {
      add(tensor.name());
      defaults.insert(tensor.name());
    }
    for (const auto &value : algorithm.input())
      if (!defaults.contains(value.name()))
        add(value.name());
    for (const NodeProto &node : algorithm.node())
      for (const std::string &output : node.output())
        add(output);
  }

  const NodeProto *producerOf(const std::string &name) const {
    auto it = producers.find(name);
    return it == producers.end() ? nullptr : it->second;
  }
  /// The name of the same value before nodes that copy it.
  const std::string &resolve(const std::string &name) {
    if (auto known = resolved.find(name); known != resolved.end())
      return known->second;
    std::vector<std::string> passed;
    std::string source = name;
    for (const NodeProto *node = producerOf(source); node && isMain(*node, "Identity") && node->input_size() == 1; node = producerOf(source)) {
      passed.push_back(source);
      if (passed.size() > producers.size())
        fail("the algorithm's '", name, "' depends on itself");
      source = node->input(0);
      if (auto known = resolved.find(source); known != resolved.end()) {
        source = known->second;
        break;
      }
    }
    for (const std::string &each : passed)
      resolved[each] = source;
    return resolved[name] = source;
  }
  std::string input(const NodeProto &node, int index) { return index < node.input_size() ? resolve(node.input(index)) : ""; }

  /// Finds the loss and the gradients.
  void readGradients() {
    for (const NodeProto &node : algorithm.node()) {
      if (node.op_type() != "Gradient" || node.domain() != trainingDomain)
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
      for (auto [i, name] : llvm::enumerate(names)) {
        if (!initializers.count(name) && !isInputOf(graph, name) && !isInputOf(algorithm, name))
          fail(labelOf(node), " names '", name, "' in xs or zs, which is neither an initializer nor an input", remedy);
        if (input(node, i) != name)
          fail(labelOf(node), " takes gradients at other values ('", node.input(i), "') than those of '", name, "'", remedy);
      }
      if (!result.loss.empty() && result.loss != y->s())
        fail("it takes gradients of several losses: '", result.loss, "' and '", y->s(), "'", remedy);
      result.loss = y->s();
      for (int i = 0; i < node.output_size() && i < xs->strings_size(); ++i)
        if (!node.output(i).empty())
          gradients[node.output(i)] = xs->strings(i);
    }
    if (result.loss.empty())
      fail("its algorithm has no Gradient node", remedy);
    if (!producerOf(result.loss) && llvm::none_of(graph.node(), [&](const NodeProto &node) { return llvm::is_contained(node.output(), result.loss); }))
      fail("the y of its Gradient node, '", result.loss, "', is computed by no node", remedy);
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
      fail("update_binding renews '", name, "', which is no initializer", remedy);
    const NodeProto *node = producerOf(value);
    if (!node) {
      result.statistics.insert(name);
      if (!isStatistics(name, value))
        fail("update_binding renews '", name, "' with '", value, "', which its algorithm does not compute", remedy);
    } else if (isOptimizer(*node)) {
      if (!llvm::is_contained(optimizers, node))
        optimizers.push_back(node);
      int place = std::find(node->output().begin(), node->output().end(), value) - node->output().begin();
      const int count = tensorsOf(*node);
      if (input(*node, 2 + place + (place < count ? 0 : count)) != name) // gradients lie between tensors and states
        fail("update_binding renews '", name, "' with the new value of another tensor of ", labelOf(*node), remedy);
      if (place < count)
        result.updated.insert(name);
    } else if (isDescent(*node, name)) {
      result.updated.insert(name);
      use(OptimizerSettings(), *node);
    } else if (isIncrement(*node, name)) {
      if (!result.optimizer.count.empty())
        fail("it counts updates twice, as '", result.optimizer.count, "' and '", name, "'", remedy);
      result.optimizer.count = name;
      counted = value;
    } else {
      fail("'", name, "' is renewed by ", labelOf(*node), ", which is neither an optimizer (Adagrad, Adam, Momentum), nor x - r * "
           "gradient, nor a count of updates", remedy);
    }
  }

  /// Whether the value is what batch norm in the model's graph makes of its running statistics.
  bool isStatistics(const std::string &name, const std::string &value) const {
    return llvm::any_of(graph.node(), [&](const NodeProto &node) {
      if (!isMain(node, "BatchNormalization"))
        return false;
      for (auto [in, out] : {std::pair(3, 1), {4, 2}})
        if (in < node.input_size() && out < node.output_size() && node.input(in) == name && node.output(out) == value)
          return true;
      return false;
    });
  }

  /// x - r * gradient; notes r.
  bool isDescent(const NodeProto &node, const std::string &name) {
    if (!isMain(node, "Sub") || node.input_size() != 2 || input(node, 0) != name)
      return false;
    const NodeProto *product = producerOf(input(node, 1));
    if (!product || !isMain(*product, "Mul") || product->input_size() != 2)
      return false;
    for (int i : {0, 1})
      if (isGradientOf(input(*product, i), name)) {
        readRate(input(*product, 1 - i), node);
        return true;
      }
    return false;
  }

  bool isIncrement(const NodeProto &node, const std::string &name) {
    if (!isMain(node, "Add") || node.input_size() != 2)
      return false;
    for (int i : {0, 1})
      if (input(node, i) == name && constant(input(node, 1 - i)) == 1.0) {
        if (initializers.at(name)->data_type() != onnx::TensorProto::INT64)
          fail("'", name, "' counts updates, and is not of the type int64", remedy);
        return true;
      }
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
      if (!taken.insert(name).second)
        fail(labelOf(node), " updates '", name, "', which another tensor or state of an optimizer is, too", remedy);
      if (!result.updated.count(name)) {
        if (initializers.count(name)) { // its new value is not used
          for (size_t s = 0; s < rule->moments().size(); ++s)
            if (std::string state = input(node, 2 + (2 + (int)s) * count + i); bindings.count(state))
              fail(labelOf(node), ": update_binding renews the state '", state, "', but not its tensor '", name, "'", remedy);
          continue;
        }
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
        if (!taken.insert(state).second || producerOf(bindings.at(state)) != &node)
          fail(labelOf(node), ": its state '", state, "' is also another tensor, or is renewed by another node", remedy);
        result.optimizer.states.push_back({name, moment.str(), state});
      }
    }
  }

  /// One optimizer updates all.
  void use(const OptimizerSettings &settings, const NodeProto &node) {
    auto &before = result.optimizer.settings;
    if (before && !areEqual(*before, settings) && !optimizerIsGiven)
      fail(labelOf(node), " updates by another rule than the nodes before it", remedy);
    before = settings;
  }

  /// A scalar that is known; null for others.
  std::optional<double> constant(const std::string &name) const {
    auto read = [&](const onnx::TensorProto &tensor) -> std::optional<double> {
      TensorData data = reader.read(tensor, nullptr);
      if (data.missing || data.type.getNumElements() != 1)
        return std::nullopt;
      return numbersOf(TensorReader::attribute(data))[0];
    };
    if (auto it = initializers.find(name); it != initializers.end())
      return bindings.count(name) ? std::nullopt : read(*it->second);
    const NodeProto *node = producerOf(name);
    if (!node || !isMain(*node, "Constant"))
      return std::nullopt;
    for (const AttributeProto &attribute : node->attribute()) {
      if (attribute.name() == "value" && attribute.has_t())
        return read(attribute.t());
      if (attribute.name() == "value_float")
        return attribute.f();
      if (attribute.name() == "value_floats" && attribute.floats_size() == 1)
        return attribute.floats(0);
      if (attribute.name() == "value_int")
        return attribute.i();
    }
    return std::nullopt;
  }

  static bool isInputOf(const onnx::GraphProto &owner, const std::string &name) {
    return llvm::any_of(owner.input(), [&](const auto &value) { return value.name() == name; });
  }
  bool isInput(const std::string &name) const { return isInputOf(algorithm, name) && !initializers.count(name); }

  void readRate(const std::string &name, const NodeProto &node) {
    if (optimizerIsGiven)
      return;
    if (!rate.empty() && rate != name && (isInput(name) || isInput(rate)))
      fail(labelOf(node), " has the learning rate '", name, "', another node '", rate, "'", remedy);
    rate = name;
    if (isInput(name)) { // --lr gives it
      result.optimizer.rateIsInput = true;
      return;
    }
    auto number = constant(name);
    if (!number || !std::isfinite(*number) || *number < 0)
      fail(labelOf(node), ": the learning rate '", name, "' is not a constant, finite number from 0 on", remedy);
    if (auto it = initializers.find(name); it != initializers.end() && !isFloat(*it->second))
      fail(labelOf(node), ": the learning rate '", name, "' is not a floating-point number", remedy);
    if (result.optimizer.learningRate && *result.optimizer.learningRate != *number)
      fail(labelOf(node), " has the learning rate ", *number, ", another node ", *result.optimizer.learningRate, remedy);
    result.optimizer.learningRate = number;
  }

  static bool isFloat(const onnx::TensorProto &tensor) {
    return llvm::is_contained({onnx::TensorProto::FLOAT, onnx::TensorProto::DOUBLE, onnx::TensorProto::FLOAT16, onnx::TensorProto::BFLOAT16},
                              (onnx::TensorProto::DataType)tensor.data_type());
  }

  /// Whether the count that an optimizer gets counts the present update, too.
  bool readCount(const std::string &name, const NodeProto &node, const OptimizerSettings &settings) {
    const bool matters = settings.optimizer == "onnx-adam" || settings.decayFactor != 0 || settings.gradientFactor != 1;
    if (!matters || optimizerIsGiven)
      return false;
    if (isInput(name)) { // the runtime counts
      if (!result.optimizer.count.empty())
        fail(labelOf(node), " gets the input '", name, "' as the number of updates, and update_binding counts '", result.optimizer.count, "'", remedy);
      result.optimizer.countIsInput = true;
      return false;
    }
    if (result.optimizer.count.empty() || (name != result.optimizer.count && name != counted))
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
      if (binding.key() == result.optimizer.count && initial && initial->kind == "constant" && initial->scale == 0)
        continue; // --init counts from 0
      if (initial && binding.key() != result.optimizer.count)
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
    TensorData data = reader.read(value->t(), nullptr);
    if (data.missing || data.type.getNumElements() == 0)
      return std::nullopt;
    auto values = TensorReader::attribute(data);
    if (!values.isSplat())
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
      if (node->domain() == trainingDomain)
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
    checkReads();
  }

  /// What update_binding renews, statistics and weights apart, has one value for all of a program: the model may not read it.
  void checkReads() const {
    std::map<std::string, const NodeProto *> readers;
    for (const NodeProto &node : graph.node()) {
      std::vector<std::string> inputs;
      addInputs(node, inputs);
      for (const std::string &name : inputs)
        readers.emplace(name, &node);
    }
    for (const auto &[name, value] : bindings)
      if (auto reader = readers.find(name); reader != readers.end() && !result.updated.count(name) && !result.statistics.count(name))
        fail(labelOf(*reader->second), " reads '", name, "', which update_binding renews and which is no weight", remedy);
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
  std::map<std::string, std::string> resolved;  // by name: that before nodes that copy it
  llvm::StringSet<> taken;                      // tensors and states of optimizers
  std::string counted;                          // the new value of the count
  std::string rate;                             // the learning rate of the nodes before
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
      info->optimizer = {};
    return info;
  } catch (ImportError &error) {
    error.message = "the file's training_info: " + error.message;
    throw;
  }
}
