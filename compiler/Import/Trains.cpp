#include "compiler/Import/Trains.h"
#include "compiler/Import/NameRules.h"
#include "divisi/pattern.h"
#include "divisi/suggest.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;
using llvm::StringRef;
using Kind = ExportNotes::Kind;

Trains::Trains(const onnx::GraphProto &graph, StringRef producer, const ImportOptions &options, TensorReader &reader,
               const TrainingInfo *training)
    : options(options), training(training), notes(graph), fromPyTorch(producer == "pytorch") {
  for (const auto &tensor : graph.initializer()) { // the graph outlives this, so no owner is needed
    initializers.push_back({tensor.name(), reader.read(tensor, nullptr)});
    verdicts[tensor.name()];
  }
  findUses(graph);
  if (!training) { // else the file names what trains, whatever the module had
    findDerived();
    findLost(graph);
  }
  readFlags();
  for (const Initializer &tensor : initializers)
    verdicts[tensor.name] = decide(tensor);
}

//===- What the graph says ------------------------------------------------===//

void Trains::findUses(const onnx::GraphProto &graph) {
  for (const auto &node : graph.node()) {
    for (int i = 0; i < node.input_size(); ++i)
      uses[node.input(i)].push_back({&node, i});
    for (const auto &attribute : node.attribute())
      if (attribute.has_g())
        findUses(attribute.g());
  }
}

const std::vector<Trains::Use> &Trains::usesOf(const std::string &name) const {
  static const std::vector<Use> none;
  auto it = uses.find(name);
  return it == uses.end() ? none : it->second;
}

static std::string mergedWith(const std::string &keeper) {
  return textOf("the exporter merged it with '", keeper, "', which was equal: they would train as one");
}

/// Finds the initializers that the exporter computed from parameters.
void Trains::findDerived() {
  for (const Initializer &tensor : initializers) {
    if (!tensor.isFloat() || notes.kindOf(tensor.name))
      continue;
    std::set<std::string> parameters;
    if (const auto *sources = notes.sourcesOf(tensor.name)) {
      for (const std::string &source : *sources)
        if (notes.kindOf(source) == Kind::parameter)
          parameters.insert(source);
    } else if (!notes.hasSources() && tensor.data.type.getNumElements() > 1) {
      // for exporters that do not write the sources of computed initializers
      for (const Use &use : usesOf(tensor.name))
        for (const std::string &parameter : parametersOf(CallNotes(*use.node)))
          if (!verdicts.count(parameter))
            parameters.insert(parameter);
    }
    for (const std::string &parameter : parameters) {
      behind[tensor.name].push_back(parameter);
      derived[parameter].push_back(tensor.name);
    }
  }
}

/// The module's parameters among a call's arguments, in order.
std::vector<std::string> Trains::parametersOf(const CallNotes &call) const {
  std::vector<std::string> parameters;
  for (const std::string &mention : call.mentions)
    if (auto it = notes.parameters().find(mention); it != notes.parameters().end())
      parameters.push_back(it->second);
  return parameters;
}

/// Finds parameters that the node's call uses but no initializer holds. The node uses others in their place, in the
/// same order, or none.
void Trains::findLostOf(const onnx::NodeProto &node, const CallNotes &call) {
  if (!options.batchNormTraining && isFoldedBatchNorm(node))
    return;
  std::vector<std::string> expected = parametersOf(call), absent, keepers;
  for (const std::string &parameter : expected)
    if (!verdicts.count(parameter) && !derived.count(parameter))
      absent.push_back(parameter);
  auto isExpected = [&](const std::string &parameter) { return llvm::is_contained(expected, parameter); };
  for (const std::string &input : node.input()) {
    auto from = behind.find(input);
    if (from != behind.end() ? llvm::none_of(from->second, isExpected)
                             : notes.kindOf(input) == Kind::parameter && !isExpected(input))
      keepers.push_back(input);
  }
  for (auto [i, parameter] : llvm::enumerate(absent)) {
    std::string &reason = lost[parameter];
    if (call.rule.empty() && keepers.size() == absent.size())
      reason = mergedWith(keepers[i]);
    else if (reason.empty())
      reason = "the exporter left it out or folded it into others";
  }
}

/// Finds parameters that a call of the module uses but no initializer holds. Tied parameters are not among them: the
/// exported program mentions only one of them. TorchScript's exporter leaves Identity nodes for parameters that it
/// merges.
void Trains::findLost(const onnx::GraphProto &graph) {
  for (const auto &node : graph.node()) {
    if (notes.any()) {
      CallNotes call(node);
      hasCalls |= !call.result.empty();
      findLostOf(node, call);
    } else if (node.op_type() == "Identity" && node.input_size() == 1 && node.output_size() == 1 &&
               verdicts.count(node.input(0)) && ruleOfName(node.output(0)) == NameRule::parameter) {
      lost[node.output(0)] = mergedWith(node.input(0));
    }
  }
}

//===- Flags --------------------------------------------------------------===//

void Trains::readFlags() {
  std::vector<std::string> candidates;
  Verdict verdict;
  for (const Initializer &tensor : initializers)
    if (tensor.isFloat() && !decideByUse(tensor, verdict))
      candidates.push_back(tensor.name);
  for (const auto &[name, reason] : lost)
    candidates.push_back(name);
  auto apply = [&](const char *flag, const std::string &pattern, TensorRole role) {
    std::string text = textOf(flag, " ", pattern);
    bool found = false;
    for (const std::string &name : candidates) {
      if (!matchesPattern(pattern, name))
        continue;
      found = true;
      auto [known, isNew] = byFlag.try_emplace(name, Verdict{role, text});
      if (!isNew && known->second.role != role)
        fail(known->second.reason, " and ", text, " are both given for '", name, "'");
    }
    if (!found)
      fail(text, " names no parameter of the model",
           candidates.empty() ? ", which has none" : suggestion(pattern, candidates));
  };
  for (const std::string &pattern : options.freeze)
    apply("--freeze", pattern, TensorRole::frozen);
  for (const std::string &pattern : options.train)
    apply("--train", pattern, TensorRole::parameter);
}

//===- Decisions ----------------------------------------------------------===//

/// Whether an input is an option of the operator.
static bool isOption(const onnx::NodeProto &node, int input) {
  StringRef type = node.op_type();
  return (type == "Dropout" && input == 1) || (type == "Resize" && input > 0) || (type == "Upsample" && input == 1) ||
         (type == "Pad" && input == 2) || type == "Range" || (type == "OneHot" && input == 2) ||
         ((type == "QuantizeLinear" || type == "DequantizeLinear") && input > 0);
}

static bool isClassWeight(const onnx::NodeProto &node, int input) {
  return input == 2 && (node.op_type() == "SoftmaxCrossEntropyLoss" || node.op_type() == "NegativeLogLikelihoodLoss");
}

/// Whether the role of a tensor follows from the operators that use it.
bool Trains::decideByUse(const Initializer &tensor, Verdict &verdict) const {
  const auto &all = usesOf(tensor.name);
  auto isStatistics = [](const Use &use) { return use.node->op_type() == "BatchNormalization" && use.input >= 3; };
  if (!tensor.isFloat())
    verdict = {TensorRole::constant, "not of a floating-point type"};
  else if (llvm::any_of(all, isStatistics))
    verdict = {TensorRole::statistics, "running statistics of batch norm"};
  else if (all.empty())
    verdict = {TensorRole::constant, "no node uses it"};
  else if (llvm::all_of(all, [](const Use &use) { return isOption(*use.node, use.input); }))
    verdict = {TensorRole::constant, textOf("an option of ", all[0].node->op_type())};
  else
    return false;
  return true;
}

Trains::Verdict Trains::decide(const Initializer &tensor) const {
  Verdict verdict;
  if (decideByUse(tensor, verdict))
    return verdict;
  if (auto flag = byFlag.find(tensor.name); flag != byFlag.end())
    return flag->second;
  if (training)
    return training->updated.count(tensor.name) ? Verdict{TensorRole::parameter, "training_info updates it"}
                                                : Verdict{TensorRole::frozen, "training_info does not update it"};
  return notes.any() ? decideByNotes(tensor) : decideByName(tensor);
}

Trains::Verdict Trains::decideByNotes(const Initializer &tensor) const {
  auto kind = notes.kindOf(tensor.name);
  if (!kind)
    return decideComputed(tensor);
  if (*kind == Kind::constant)
    return {TensorRole::constant, "the exporter's notes: a constant tensor"};
  if (*kind == Kind::buffer && !notes.isPersistent(tensor.name))
    return {TensorRole::constant, "the exporter's notes: a buffer that is not persistent"};
  if (*kind == Kind::buffer)
    return {TensorRole::frozen, "the exporter's notes: a buffer"};
  if (foldsBatchNorm(tensor.name))
    return decideFolded();
  if (notes.hasOriginals() && !notes.isOriginal(tensor.name))
    for (const Use &use : usesOf(tensor.name))
      if (std::string rule = CallNotes(*use.node).rule; !rule.empty())
        return {TensorRole::undecided, textOf("a parameter that the exporter changed (", rule, ")")};
  return {TensorRole::parameter, "the exporter's notes: a parameter"};
}

bool Trains::foldsBatchNorm(const std::string &name) const {
  return llvm::any_of(usesOf(name), [](const Use &use) { return use.input > 0 && isFoldedBatchNorm(*use.node); });
}

Trains::Verdict Trains::decideFolded() const {
  return {options.batchNormTraining ? TensorRole::undecided : TensorRole::parameter,
          "the exporter folded batch norm into it", true};
}

/// The verdict for an initializer that is no tensor of the module: the exporter computed it.
Trains::Verdict Trains::decideComputed(const Initializer &tensor) const {
  auto from = behind.find(tensor.name);
  if (foldsBatchNorm(tensor.name))
    return decideFolded();
  if (from == behind.end() && notes.sourcesOf(tensor.name))
    return {TensorRole::constant, "the exporter computed it from constants and buffers"};
  // Without calls, another tool computed it or removed its notes.
  if (from == behind.end())
    return hasCalls ? Verdict{TensorRole::constant, "a constant: no module owns it"} : decideByName(tensor);
  std::string names = "'" + llvm::join(from->second, "', '") + "'";
  const std::string &parameter = from->second[0];
  if (from->second.size() > 1 || !isRearranged(tensor, parameter))
    return {TensorRole::undecided, textOf("the exporter computed it from ", names, ", which the module trains")};
  if (verdicts.count(parameter))
    return {TensorRole::undecided,
            textOf("the exporter made a transposed copy of ", names, ", which is tied in the module: they would part")};
  if (derived.at(parameter).size() > 1)
    return {TensorRole::undecided,
            textOf("the exporter made several copies of ", names, ", which would train each for itself")};
  return {TensorRole::parameter, textOf(names, " transposed or reshaped by the exporter"), true};
}

/// PyTorch's operators whose decompositions only transpose or reshape their parameters.
static bool isLinearInItsParameters(StringRef target) {
  static const std::set<StringRef> known = {"addmm",
                                            "bmm",
                                            "conv1d",
                                            "conv2d",
                                            "conv3d",
                                            "convolution",
                                            "group_norm",
                                            "instance_norm",
                                            "linear",
                                            "matmul",
                                            "mm",
                                            "prelu",
                                            "embedding",
                                            "layer_norm",
                                            "lstm",
                                            "gru",
                                            "conv_transpose1d",
                                            "conv_transpose2d",
                                            "native_group_norm"};
  target.consume_front("aten.");
  return known.count(target.split('.').first);
}

bool Trains::isRearranged(const Initializer &tensor, const std::string &parameter) const {
  if (isRearrangement(tensor.name))
    return true;
  return llvm::all_of(usesOf(tensor.name), [&](const Use &use) {
    CallNotes call(*use.node);
    return isLinearInItsParameters(call.target) && llvm::is_contained(parametersOf(call), parameter);
  });
}

Trains::Verdict Trains::decideByName(const Initializer &tensor) const {
  NameRule rule = ruleOfName(tensor.name);
  StringRef name = tensor.name;
  std::string content = maskContent(tensor.data);
  bool spectral = name.ends_with("weight_v") && llvm::any_of(initializers, [&](const Initializer &other) {
                    return other.name == name.drop_back().str() + "u";
                  });
  bool isMask =
      !content.empty() && (rule != NameRule::parameter || (name.ends_with("bias") && tensor.data.type.getRank() > 2));
  if (llvm::all_of(usesOf(tensor.name), [](const Use &use) { return isClassWeight(*use.node, use.input); }))
    return {TensorRole::frozen, "weights of classes in a loss"};
  if (isMask)
    return {TensorRole::frozen, "a mask: it has " + content};
  if (rule == NameRule::madeUp)
    return decideMadeUp(tensor);
  if (rule == NameRule::buffer || spectral)
    return {TensorRole::frozen, "by its name a buffer", true};
  if (isSinusoid(tensor.data))
    return {TensorRole::frozen, "a table of sines and cosines", true};
  if (rule == NameRule::parameter && isBesideStatistics(tensor.name))
    return {TensorRole::frozen, "beside running statistics that no BatchNormalization reads, as in a frozen batch norm", true};
  if (isRepeatedFilter(tensor.data))
    return {TensorRole::parameter, "the same filter several times: it may be a constant", true};
  if (fromPyTorch && (name == "kernel" || name.ends_with(".kernel")))
    return {TensorRole::parameter, "PyTorch's modules have no parameter of this name", true};
  if (rule == NameRule::parameter)
    return {TensorRole::parameter, "by its name a parameter"};
  if (!fromPyTorch && tensor.data.type.getNumElements() == 1)
    return {TensorRole::constant, "one number with a name that says nothing", true};
  return {TensorRole::parameter, "a floating-point initializer; its name says nothing", true};
}

/// Whether a module has this weight or bias and running statistics that are no input of batch norm.
bool Trains::isBesideStatistics(const std::string &name) const {
  const std::string module = StringRef(name).substr(0, StringRef(name).rfind('.') + 1).str();
  auto isPlain = [&](const char *statistics) {
    const auto &users = usesOf(module + statistics);
    return !users.empty() && llvm::none_of(users, [](const Use &use) { return use.node->op_type() == "BatchNormalization"; });
  };
  return (name == module + "weight" || name == module + "bias") && isPlain("running_mean") && isPlain("running_var");
}

/// Whether all users read the tensor at the input where modules have their weights.
bool Trains::isWeightOfItsUsers(const std::string &name) const {
  static const std::set<StringRef> anywhere = {"MatMul", "Gemm", "Einsum"};
  static const std::set<StringRef> behindFirst = {"Conv",
                                                  "ConvTranspose",
                                                  "LSTM",
                                                  "GRU",
                                                  "RNN",
                                                  "PRelu",
                                                  "LayerNormalization",
                                                  "GroupNormalization",
                                                  "InstanceNormalization",
                                                  "BatchNormalization"};
  return llvm::all_of(usesOf(name), [](const Use &use) {
    StringRef type = use.node->op_type();
    return anywhere.count(type) || (behindFirst.count(type) && use.input > 0) || ((type == "Gather" || type == "GatherND") && use.input == 0);
  });
}

/// The verdict for a name that an exporter made up, without notes: by TorchScript's constant folding, or in a file
/// whose notes were removed.
Trains::Verdict Trains::decideMadeUp(const Initializer &tensor) const {
  if (foldsBatchNorm(tensor.name))
    return decideFolded();
  bool isFolded = StringRef(tensor.name).starts_with("onnx::"); // by TorchScript; its numbers are no initializers
  if (tensor.data.type.getNumElements() == 1 && !isFolded)
    return {TensorRole::constant, "one number that the exporter named", true};
  if (!isWeightOfItsUsers(tensor.name))
    return {TensorRole::undecided, "the exporter computed it, perhaps from parameters"};
  if (!isSplat(tensor.data))
    for (const Initializer &other : initializers)
      if (other.name != tensor.name && isTransposeOf(tensor.data, other.data))
        return {TensorRole::undecided, textOf("the exporter made it a transposed copy of '", other.name,
                                              "', which is tied in the module: they would part")};
  return {TensorRole::parameter, "a weight that the exporter computed and named", true};
}

//===- Answers ------------------------------------------------------------===//

StringRef divisi::compiler::nameOf(TensorRole role) {
  switch (role) {
  case TensorRole::parameter:
    return "parameter";
  case TensorRole::frozen:
    return "frozen";
  case TensorRole::constant:
    return "constant";
  case TensorRole::statistics:
    return "statistics";
  case TensorRole::undecided:
    return "undecided";
  }
  llvm_unreachable("a role without a name");
}

std::vector<TensorListing> Trains::listing() const {
  std::vector<TensorListing> rows;
  for (const Initializer &tensor : initializers) {
    const Verdict &verdict = of(tensor.name);
    std::string shape = llvm::join(
        llvm::map_range(tensor.data.type.getShape(), [](int64_t size) { return std::to_string(size); }), "x");
    rows.push_back(
        {tensor.name, textOf(tensor.data.type.getElementType(), "[", shape, "]"), verdict.role, verdict.reason});
  }
  for (const auto &[name, reason] : lost) {
    auto flag = byFlag.find(name);
    bool settled = flag != byFlag.end();
    rows.push_back({name, "absent", settled ? flag->second.role : TensorRole::undecided,
                    settled ? textOf(flag->second.reason, " (", reason, ")") : reason});
  }
  return rows;
}

std::vector<std::string> Trains::conclude() const {
  std::vector<std::string> open, names, trained, kept, rearranged;
  for (const TensorListing &row : listing()) {
    if (row.role == TensorRole::undecided) {
      open.push_back(textOf("'", row.name, "': ", row.reason));
      names.push_back(row.name);
      continue;
    }
    auto it = verdicts.find(row.name);
    if (it == verdicts.end() || !it->second.isGuess)
      continue;
    if (row.role != TensorRole::parameter)
      kept.push_back(row.name);
    else if (behind.count(row.name) || ruleOfName(row.name) == NameRule::madeUp)
      rearranged.push_back(row.name);
    else
      trained.push_back(row.name);
  }
  constexpr size_t shown = 8; // a fresh transformer has hundreds of undecided tensors for one reason
  if (open.size() > shown) {
    std::string more = textOf("and ", open.size() - shown, " more");
    open.resize(shown), names.resize(shown);
    open.push_back(more), names.push_back(more);
  }
  if (!open.empty())
    fail("the file does not let the module's parameters train as they are: ", llvm::join(open, "; "),
         ". Remedy: ", exportAdvice, "; or decide about each of them with --train NAME or --freeze NAME (",
         llvm::join(names, ", "), "); --list-parameters lists all tensors");
  std::vector<std::string> warnings;
  if (!trained.empty())
    warnings.push_back(textOf("neither the file nor their names say whether these tensors are parameters, and they are "
                              "trained: ",
                              plainName(llvm::join(trained, ", "), false),
                              "; --freeze NAME keeps one as it is, --train NAME confirms it"));
  if (!kept.empty())
    warnings.push_back(textOf("by their names or values these tensors are no parameters, and they are not trained: ",
                              plainName(llvm::join(kept, ", "), false), "; --train NAME trains one, --freeze NAME confirms it"));
  if (!rearranged.empty())
    warnings.push_back(textOf("the exporter transposed or computed these weights and gave them names of its own (",
                              llvm::join(rearranged, ", "),
                              "): they train as they are now, and are saved so; to keep "
                              "the module's, ",
                              exportAdvice));
  return warnings;
}
