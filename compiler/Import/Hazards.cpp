#include "compiler/Import/ModelImporter.h"

#include "llvm/Support/Regex.h"

using namespace divisi::compiler;
using google::protobuf::RepeatedPtrField;
using llvm::StringRef;
using Role = Signature::Role;
using Nodes = RepeatedPtrField<onnx::NodeProto>;

static std::string describeAt(const onnx::NodeProto &node, int index) {
  return describe(node, node.name().empty() ? textOf(node.op_type(), "_", index) : node.name());
}

//===- Batch norm that is folded away -------------------------------------===//

void ModelImporter::refuseFoldedBatchNorm() {
  std::vector<std::string> folded;
  for (auto [index, node] : llvm::enumerate(model->graph().node()))
    if (isFoldedBatchNorm(node))
      folded.push_back(describeAt(node, index));
  if (folded.empty())
    return;
  std::string what = "the exporter folded batch norm into the weights of " + llvm::join(folded, ", ");
  if (options.batchNormTraining)
    fail(what, ": nothing of it is left to train. Remedy: ", exportAdvice,
         "; --batch-norm=inference trains the folded weights");
  warn(what + ": the folded weights are trained, and batch norm is not");
}

//===- Warnings -----------------------------------------------------------===//

/// The dropout probability inside of PyTorch's scaled_dot_product_attention(query, key, value, mask, dropout_p, ...).
static double dropoutOfAttention(const CallNotes &call) {
  if (!StringRef(call.target).starts_with("aten.scaled_dot_product_attention"))
    return 0;
  double ratio;
  return StringRef(call.argument(4, "dropout_p")).getAsDouble(ratio) ? 0 : ratio;
}

bool ModelImporter::isInTraining() {
  if (!inTraining)
    inTraining = llvm::any_of(model->graph().node(), [](const onnx::NodeProto &node) {
      CallNotes call(node);
      return StringRef(call.target).contains("native_dropout") || call.isTrainingBatchNorm();
    });
  return *inTraining;
}

/// Modules whose dropout the exporter has removed: the module was in eval() (then a copy is in its place, as for a
/// probability of 0), or it is inside of attention and an optimizer took it for inactive.
static std::vector<std::string> lostDropouts(const Nodes &nodes, bool inTraining) {
  std::set<std::string> kept; // calls with a Dropout
  for (const auto &node : nodes) {
    CallNotes call(node);
    if (node.op_type() == "Dropout")
      kept.insert(call.result);
  }
  std::vector<std::string> lost;
  for (auto [index, node] : llvm::enumerate(nodes)) {
    CallNotes call(node);
    if (!inTraining && node.op_type() == "Identity" && StringRef(call.moduleClass).contains(".dropout."))
      lost.push_back(describeAt(node, index));
    else if (dropoutOfAttention(call) > 0 && kept.insert(call.result).second)
      lost.push_back(describe(node, call.result));
  }
  return lost;
}

/// Calls of detach() that nodes take their arguments from, and of which the exporter's optimizer left no node.
static std::set<std::string> lostDetaches(const Nodes &nodes) {
  static const llvm::Regex detach("^detach(_[0-9]+)?$");
  std::set<std::string> lost, kept;
  for (const auto &node : nodes) {
    CallNotes call(node);
    kept.insert(call.result);
    for (const std::string &name : call.mentions)
      if (detach.match(name))
        lost.insert(name);
  }
  for (const std::string &name : kept)
    lost.erase(name);
  return lost;
}

/// The path of the module of a node of TorchScript's exporter, without the numbers of repeated calls: "enc/enc.1" of
/// "/enc/enc.1_1/LayerNormalization". The whole name if it is no path.
static std::string modulePath(const onnx::NodeProto &node, const std::string &name) {
  CallNotes call(node);
  if (!call.result.empty())
    return call.module;
  if (!StringRef(name).starts_with("/"))
    return name;
  llvm::SmallVector<StringRef> parts;
  StringRef(name).drop_front().split(parts, '/');
  std::string path;
  for (StringRef part : llvm::ArrayRef(parts).drop_back()) {
    StringRef stem = part.rtrim("0123456789");
    path += "/" + (stem.ends_with("_") ? stem.drop_back() : part).str();
  }
  return path;
}

/// Normalizations of several modules that share a parameter, in a file that does not explain it.
static std::map<std::string, std::set<std::string>> sharedNormalizations(const Nodes &nodes) {
  std::map<std::string, std::set<std::string>> modules;
  for (auto [index, node] : llvm::enumerate(nodes))
    if (StringRef(node.op_type()).ends_with("Normalization") && node.input_size() > 1)
      modules[node.input(1)].insert(modulePath(node, describeAt(node, index)));
  return modules;
}

/// The buffers of a module that a call changes and the file does not, if a frozen tensor is among them: also those that
/// the file lacks, because only the change uses them.
std::set<std::string> ModelImporter::staleBuffers() {
  const auto &graph = model->graph();
  std::set<std::string> inFile, stale;
  std::set<StringRef> modules;
  ExportNotes notes(graph);
  auto moduleOf = [](StringRef name) { return name.contains('.') ? name.rsplit('.').first : StringRef(); };
  for (const auto &tensor : graph.initializer())
    if (inFile.insert(tensor.name()).second && notes.mutations().count(tensor.name()) &&
        trains->of(tensor.name()).role == TensorRole::frozen) {
      stale.insert(tensor.name());
      modules.insert(moduleOf(tensor.name()));
    }
  for (const std::string &name : notes.mutations())
    if (!inFile.count(name) && modules.count(moduleOf(name)))
      stale.insert(name);
  return stale;
}

void ModelImporter::warnOfHazards() {
  size_t parameters = 0, trainable = 0;
  for (auto &argument : arguments->all()) {
    parameters += argument.role == Role::parameter;
    trainable += argument.role == Role::parameter && !argument.isFrozen;
  }
  if (!trainable) {
    if (parameters)
      fail("all parameters of the model are frozen: nothing is left to train");
    for (const TensorListing &row : trains->listing())
      if (row.role == TensorRole::parameter)
        fail("the loss depends on no parameter of the model, not on '", row.name, "' for example: no path leads from it to the loss");
    fail("the model has no parameter to train: its weights are not floating-point initializers");
  }
  const auto &graph = model->graph();
  ExportNotes notes(graph);
  if (!notes.any())
    for (auto &[name, modules] : sharedNormalizations(graph.node()))
      if (modules.size() > 1 && arguments->has(Role::parameter, name))
        warn(textOf("parameter '", name, "' is shared by ", modules.size(), " normalizations (",
                    llvm::join(modules, ", "),
                    "): if the exporter has merged weights that were equal, they train as "
                    "one; ",
                    exportAdvice));
  if (!inferenceBatchNorms.empty() && options.batchNormTraining)
    warn(textOf("batch norm was exported in inference form and is trained in training form (",
                llvm::join(inferenceBatchNorms, ", "), "); --batch-norm=inference keeps it"));
  for (std::string &name : lostDropouts(graph.node(), isInTraining()))
    inactiveDropouts.push_back(std::move(name));
  if (!inactiveDropouts.empty())
    warn(textOf("dropout does nothing (", llvm::join(inactiveDropouts, ", "),
                "): it was exported in inference form, or with a probability of 0; to train with dropout, ",
                exportAdvice));
  if (auto detached = lostDetaches(graph.node()); !detached.empty())
    warn(textOf("the module stops gradients (", llvm::join(detached, ", "),
                "), and the exporter's optimizer left this out: gradients flow there; ", exportAdvice));
  for (const std::string &name : staleBuffers())
    warn(textOf("the module changes its buffer '", name, "' in every step, and the file does not: it stays as it is"));
}
