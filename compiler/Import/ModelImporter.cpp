#include "compiler/Import/ModelImporter.h"
#include "codegen/Evaluate.h"
#include "compiler/Import/Operators.h"
#include "compiler/Import/Raise.h"
#include "compiler/Import/Widen.h"
#include "dialects/Graph/Nodes.h"

#include "llvm/Support/Path.h"

using namespace mlir;
using namespace divisi::compiler;
using google::protobuf::RepeatedPtrField;

/// The supported opsets.
static constexpr int64_t oldestOpset = 7, newestOpset = 26;
/// Limits of the nesting of functions and branches, and of the number of imported nodes.
static constexpr int maxDepth = 32;
static constexpr int64_t maxNodes = 1'000'000;

const Item *Scope::find(llvm::StringRef name) const {
  for (const Scope *scope = this; scope; scope = scope->outer)
    if (auto it = scope->items.find(name); it != scope->items.end())
      return &it->second;
  return nullptr;
}

ModelImporter::ModelImporter(MLIRContext &context, llvm::StringRef path, const ImportOptions &options,
                             std::string &lastError)
    : options(options), context(context), builder(&context), lastError(lastError),
      reader(&context, path, options.weightsOptional), path(path.str()) {}

void ModelImporter::warn(std::string text) {
  if (!llvm::is_contained(warnings, text))
    warnings.push_back(std::move(text));
}

ImportedModel ModelImporter::run() {
  model = readModel(path);
  readOpsets();
  if (!options.forwardOnly)
    readTraining();
  reportUnsupported(model->graph().node());
  if (!options.forwardOnly) {
    if (std::string note = widenHalves(*model, reader); !note.empty())
      notes.push_back(note);
    refuseFoldedBatchNorm();
    trains.emplace(model->graph(), model->producer_name(), options, reader, training ? &*training : nullptr);
    for (std::string &warning : trains->conclude())
      warn(std::move(warning));
  }

  Location loc = FileLineColLoc::get(&context, path, 1, 1);
  module = ModuleOp::create(loc);
  (*module)->setAttr("graph.model", builder.getStringAttr(llvm::sys::path::stem(path)));
  builder.setInsertionPointToEnd(module->getBody());
  auto function =
      func::FuncOp::create(builder, loc, options.forwardOnly ? "forward" : "loss", builder.getFunctionType({}, {}));
  builder.setInsertionPointToStart(function.addEntryBlock());
  arguments.emplace(function);

  Scope scope;
  scope.opsets = opsets;
  importInputs(scope);
  importInitializers(scope);
  importNodes(model->graph().node(), scope);
  options.forwardOnly ? addForwardOutputs(scope) : addOutputs(scope);
  if (!options.forwardOnly)
    foldConstants();
  eraseUnused();
  arguments->finish(loc);
  if (!options.forwardOnly) {
    raisePatterns(function);
    eraseUnused();
    warnOfHazards();
  }
  if (failed(mlir::verify(*module)))
    fail("the imported model does not verify: ", lastError);

  graph::nameNodes(*module);
  noteTraining();
  ImportedModel result;
  result.weights = takeWeights();
  if (training)
    result.training = takeTraining(result.weights);
  result.skeleton = takeSkeleton(result);
  result.module = std::move(module);
  result.warnings = std::move(warnings);
  result.notes = std::move(notes);
  return result;
}

std::vector<TensorListing> ModelImporter::list() {
  model = readModel(path);
  readTraining();
  return Trains(model->graph(), model->producer_name(), options, reader, training ? &*training : nullptr).listing();
}

/// Reads the file's training_info, unless flags say what the loss is.
void ModelImporter::readTraining() {
  if (options.loss == ImportOptions::Loss::inModel && options.output.empty()) {
    training = readTrainingInfo(*model, reader, options.optimizerIsGiven);
    if (training && !training->computed.empty())
      warn(textOf("the file's training_info computes initial values of ", llvm::join(training->computed, ", "),
                  " in a way that the program's --init does not follow: it follows RandomNormal, RandomUniform and constants"));
    if (training && options.optimizerIsGiven)
      notes.push_back("the loss and what trains are those of the file's training_info; its optimizer with state and learning rate is not followed, because "
                      "flags name one");
    if (training && training->optimizer.rateIsInput)
      notes.push_back("the learning rate is an input of the file's training_info: --lr gives it, 0.01 without");
    if (training && training->optimizer.countIsInput)
      notes.push_back("the number of updates is an input of the file's training_info: a program counts from 0, and a saved model does not keep it");
    if (training)
      options.batchNormTraining = false; // the file has the forward pass of training
  } else if (model->training_info_size() > 0) {
    warn("the file's training_info (a loss, an optimizer and its state) is not followed, because --loss or --output is given");
  }
}

void ModelImporter::readOpsets() {
  for (const auto &entry : model->opset_import())
    opsets[isMainDomain(entry.domain()) ? "" : entry.domain()] = entry.version();
  auto main = opsets.find("");
  auto isMain = [](const onnx::NodeProto &node) { return isMainDomain(node.domain()); };
  if (main == opsets.end() && llvm::none_of(model->graph().node(), isMain))
    main = opsets.emplace("", newestOpset).first; // all operators are of other domains
  if (main == opsets.end())
    fail("the model does not say which opset it uses");
  if (main->second < oldestOpset)
    fail("opset ", main->second, " is too old; Divisi reads opsets ", oldestOpset, " to ", newestOpset);
  if (main->second > newestOpset)
    warn(textOf("opset ", main->second, " is newer than ", newestOpset, ", the newest that Divisi knows"));
  for (const auto &function : model->functions()) {
    std::string key = textOf(function.domain(), ":", function.name(), ":", overloadOf(function));
    if (!functions.emplace(key, &function).second)
      fail("function '", function.name(), "' is defined twice");
  }
}

static int64_t opsetOf(const std::map<std::string, int64_t> &opsets, const onnx::NodeProto &node) {
  auto it = opsets.find(isMainDomain(node.domain()) ? "" : node.domain());
  return it == opsets.end() ? 1 : it->second;
}

const onnx::FunctionProto *ModelImporter::findFunction(const onnx::NodeProto &node) const {
  auto it = functions.find(textOf(node.domain(), ":", node.op_type(), ":", overloadOf(node)));
  return it == functions.end() ? nullptr : it->second;
}

/// The operator of a node, or null. A function of the file comes before an operator of another domain than the main one.
const Operator *ModelImporter::operatorOf(const onnx::NodeProto &node, int64_t opset) const {
  if (!isMainDomain(node.domain()) && findFunction(node))
    return nullptr;
  return findOperator(node.domain(), node.op_type(), opset);
}

/// Reports all unsupported operators in one message.
void ModelImporter::reportUnsupported(const RepeatedPtrField<onnx::NodeProto> &all) {
  std::map<std::string, SmallVector<std::string>> unsupported;
  std::set<const onnx::FunctionProto *> visited;
  auto visit = [&](auto &self, const RepeatedPtrField<onnx::NodeProto> &nodes,
                   const std::map<std::string, int64_t> &versions, int depth) -> void {
    if (depth > maxDepth)
      fail("functions call each other more than ", maxDepth, " deep");
    for (auto [index, node] : llvm::enumerate(nodes)) {
      int64_t opset = opsetOf(versions, node);
      if (operatorOf(node, opset))
        continue;
      if (const auto *function = findFunction(node)) {
        std::map<std::string, int64_t> inner;
        for (const auto &entry : function->opset_import())
          inner[isMainDomain(entry.domain()) ? "" : entry.domain()] = entry.version();
        if (visited.insert(function).second)
          self(self, function->node(), inner, depth + 1);
        continue;
      }
      bool otherVersion = findOperator(node.domain(), node.op_type(), newestOpset);
      std::string name = operatorName(node) + (otherVersion ? textOf(" of opset ", opset) : "");
      unsupported[name].push_back(
          describe(node, node.name().empty() ? textOf(node.op_type(), "_", index) : node.name()));
    }
  };
  visit(visit, all, opsets, 0);
  if (unsupported.empty())
    return;
  std::string text =
      unsupported.size() == 1 ? "unsupported operator: " : textOf(unsupported.size(), " unsupported operators: ");
  llvm::ListSeparator separator("; ");
  for (auto &[name, nodes] : unsupported) {
    size_t shown = std::min<size_t>(3, nodes.size());
    text += textOf((llvm::StringRef)separator, name, " (", nodes.size(), nodes.size() == 1 ? " node: " : " nodes: ",
                   llvm::join(llvm::ArrayRef(nodes).take_front(shown), ", "), shown < nodes.size() ? ", ...)" : ")");
  }
  fail(text, "; docs/onnx.md lists what works, and how to export something else");
}

//===- Nodes --------------------------------------------------------------===//

void ModelImporter::importNodes(const RepeatedPtrField<onnx::NodeProto> &nodes, Scope &scope) {
  for (auto [index, node] : llvm::enumerate(nodes))
    importNode(node, index, scope);
}

/// A node whose references to the attributes of the function's call are replaced by their values.
onnx::NodeProto ModelImporter::resolveAttributes(const onnx::NodeProto &node, const Scope &scope) {
  onnx::NodeProto resolved = node;
  resolved.clear_attribute();
  for (const auto &attribute : node.attribute()) {
    if (attribute.ref_attr_name().empty()) {
      *resolved.add_attribute() = attribute;
    } else if (auto it = scope.attributes.find(attribute.ref_attr_name()); it != scope.attributes.end()) {
      auto *copy = resolved.add_attribute();
      *copy = it->second;
      copy->set_name(attribute.name());
    }
  }
  return resolved;
}

/// Why torch.export gave the result of a node this name, which something else has, and what to do.
static std::string causeOf(const onnx::GraphProto &graph, const std::string &name) {
  auto isNamed = [&](const auto &value) { return value.name() == name; };
  const std::string cause = ": the exporter names nodes after their operators, and ";
  if (llvm::any_of(graph.initializer(), isNamed))
    return cause + "a parameter or buffer of the module has this name; rename it in the module, or export by divisi.export";
  if (llvm::any_of(graph.input(), isNamed))
    return cause + "an input has this name; give it another one (input_names), or export by divisi.export";
  return "";
}

void ModelImporter::importNode(const onnx::NodeProto &node, int index, Scope &scope) {
  std::string name = scope.prefix + (node.name().empty() ? textOf(node.op_type(), "_", index) : node.name());
  Location loc = NameLoc::get(builder.getStringAttr(name));
  try {
    if (++importedNodes > maxNodes)
      fail("the model has more than ", maxNodes, " nodes");
    bool refers = llvm::any_of(node.attribute(), [](const auto &a) { return !a.ref_attr_name().empty(); });
    Operation *last = builder.getInsertionBlock()->empty() ? nullptr : &builder.getInsertionBlock()->back();
    Results results =
        refers ? dispatch(resolveAttributes(node, scope), name, loc, scope) : dispatch(node, name, loc, scope);
    for (Operation *op = last ? last->getNextNode() : &*builder.getInsertionBlock()->begin();
         op && op != &*builder.getInsertionBlock()->end(); op = op->getNextNode())
      if (failed(mlir::verify(op)))
        fail(lastError);
    for (auto [i, output] : llvm::enumerate(node.output())) {
      if (output.empty())
        continue;
      if (!scope.items.try_emplace(output, i < results.size() ? results[i] : Item()).second)
        fail("output '", output, "' has the name of another value", causeOf(model->graph(), output));
    }
  } catch (ImportError &error) {
    if (!error.loc) {
      error.loc = loc;
      error.message = textOf("node '", name, "' (", describe(node, operatorName(node)), "): ", error.message);
    }
    throw;
  }
}

Results ModelImporter::dispatch(const onnx::NodeProto &node, const std::string &name, Location loc, Scope &scope) {
  int64_t opset = opsetOf(scope.opsets, node);
  if (const Operator *row = operatorOf(node, opset)) {
    NodeImporter importer(*this, node, name, loc, opset, scope);
    return row->handler(importer);
  }
  if (const auto *function = findFunction(node))
    return importCall(node, *function, name, scope);
  fail("unsupported operator ", operatorName(node));
}

Results ModelImporter::importCall(const onnx::NodeProto &node, const onnx::FunctionProto &function,
                                  const std::string &name, Scope &scope) {
  Scope inner;
  inner.depth = scope.depth + 1;
  inner.prefix = name + "/";
  if (inner.depth > maxDepth)
    fail("functions call each other more than ", maxDepth, " deep");
  for (const auto &entry : function.opset_import())
    inner.opsets[isMainDomain(entry.domain()) ? "" : entry.domain()] = entry.version();
  for (auto &attribute : defaultsOf(function))
    inner.attributes[attribute.name()] = attribute;
  for (const auto &attribute : node.attribute())
    inner.attributes[attribute.name()] = attribute;
  if (node.input_size() > function.input_size())
    fail("it has ", node.input_size(), " inputs, but the function takes ", function.input_size());
  for (auto [i, input] : llvm::enumerate(function.input())) {
    if ((int)i >= node.input_size() || node.input(i).empty())
      continue;
    const Item *item = scope.find(node.input(i));
    if (!item)
      fail("input '", node.input(i), "' is not defined before this node");
    inner.items[input] = *item;
  }
  importNodes(function.node(), inner);
  Results results;
  for (const auto &output : function.output()) {
    const Item *item = inner.find(output);
    results.push_back(item ? *item : Item());
  }
  return results;
}

Results ModelImporter::importSubgraph(const onnx::GraphProto &graph, llvm::ArrayRef<Item> inputs, const Scope &scope,
                                      const std::string &prefix) {
  if (graph.input_size() != (int)inputs.size())
    fail("its graph '", graph.name(), "' has ", graph.input_size(), " inputs, not ", inputs.size());
  Scope inner{&scope};
  inner.attributes = scope.attributes;
  inner.opsets = scope.opsets;
  inner.prefix = prefix;
  inner.depth = scope.depth + 1;
  if (inner.depth > maxDepth)
    fail("graphs nest more than ", maxDepth, " deep");
  for (auto [input, item] : llvm::zip(graph.input(), inputs))
    if (!inner.items.try_emplace(input.name(), item).second)
      fail("input '", input.name(), "' of its graph '", graph.name(), "' is defined twice");
  importConstants(graph, inner);
  importNodes(graph.node(), inner);
  Results results;
  for (const auto &output : graph.output()) {
    const Item *item = inner.find(output.name());
    if (!item)
      fail("its graph '", graph.name(), "' does not compute its output '", output.name(), "'");
    results.push_back(*item);
  }
  return results;
}

void ModelImporter::countSlices(int64_t more) {
  if (more > mostUnrolled || (unrolled += more) > mostUnrolled)
    fail("the slices that are written one by one, with the nodes in iterations of loops, are more than ", mostUnrolled, ": ", more, " more here");
}

//===- Values that are known while importing ------------------------------===//

/// The largest value that is evaluated, the largest number of elements that its computation may have, and of scalar operations.
static constexpr int64_t maxEvaluated = 1 << 22, maxSlice = 1 << 26, maxOperations = 1 << 20;

/// Whether a value depends on constants only, and its computation is within the limit. (What depends on more is kept: else each
/// iteration of a loop would be walked back to the first.)
bool ModelImporter::canEvaluate(Value value) {
  llvm::SmallPtrSet<Operation *, 16> seen;
  SmallVector<Value> open{value};
  int64_t elements = 0;
  while (!open.empty()) {
    Value next = open.pop_back_val();
    Operation *op = next.getDefiningOp();
    if (!op || varying.contains(next) || isa<divisi::graph::RandomnessInterface>(op)) { // random numbers differ in each step
      varying.insert(value);
      return false;
    }
    if (!seen.insert(op).second)
      continue;
    for (Type type : op->getResultTypes())
      elements += cast<RankedTensorType>(type).getNumElements();
    if (elements > maxSlice)
      return false;
    llvm::append_range(open, op->getOperands());
  }
  return true;
}

std::optional<DenseElementsAttr> ModelImporter::evaluate(Value value) {
  int64_t budget = maxOperations;
  return evaluate(value, budget);
}

std::optional<DenseElementsAttr> ModelImporter::evaluate(Value value, int64_t &budget) {
  if (auto constant = value.getDefiningOp<graph::ConstantOp>())
    return dyn_cast<DenseElementsAttr>(constant.getValue());
  if (auto it = evaluated.find(value); it != evaluated.end())
    return it->second;
  if (unknown.contains(value) || graph::tensorType(value).getNumElements() > maxEvaluated || !canEvaluate(value))
    return std::nullopt;
  auto result = codegen::evaluate(value, budget);
  if (failed(result)) {
    unknown.insert(value);
    return std::nullopt;
  }
  evaluated[value] = *result;
  return *result;
}

std::optional<DenseElementsAttr> ModelImporter::initialValue(Value value) {
  Signature::Argument *argument = arguments->find(value);
  if (!argument || argument->role != Signature::Role::parameter || !argument->isFrozen || argument->data.missing ||
      argument->data.type.getNumElements() > maxEvaluated)
    return std::nullopt;
  return TensorReader::attribute(argument->data);
}

Value &ModelImporter::renewed(Value buffer) {
  for (auto &[known, value] : renewals)
    if (known == buffer)
      return value;
  return renewals.emplace_back(buffer, Value()).second;
}
