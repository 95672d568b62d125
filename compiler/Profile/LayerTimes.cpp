#include "compiler/Profile/LayerTimes.h"

#include "passes/Planning/ModulePlanner.h"
#include "passes/Planning/Groups.h"

#include "llvm/ADT/SCCIterator.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/LineIterator.h"
#include "llvm/Support/MemoryBuffer.h"

#include <deque>
#include <set>

using namespace divisi;
using namespace divisi::compiler;
using namespace divisi::planning;
namespace json = llvm::json;
using llvm::StringRef;

namespace {

/// The first of the nodes of an operation or a call.
std::string firstNode(StringRef names) { return names.split(' ').first.str(); }

/// A node of the model, for llvm::scc_iterator.
struct Node {
  std::string name;
  int layer = -1;
  llvm::SmallSetVector<Node *, 4> inputs = {};
};
} // namespace

template <> struct llvm::GraphTraits<Node *> {
  using NodeRef = Node *;
  using ChildIteratorType = llvm::SmallSetVector<Node *, 4>::iterator;
  static NodeRef getEntryNode(Node *node) { return node; }
  static ChildIteratorType child_begin(Node *node) { return node->inputs.begin(); }
  static ChildIteratorType child_end(Node *node) { return node->inputs.end(); }
};

namespace {
/// Nodes of the model as layers, in their order, without mere views. What is computed from parameters and constants
/// alone (a slice of a weight) belongs to the layer that first reads it, and nodes that read each other (a recurrent
/// layer and its steps) are one layer, named after the first.
class Layers {
public:
  explicit Layers(const Problem &problem)
      : problem(problem), groups(problem, /*evaluation=*/false), maker(problem.tensors.size(), -1),
        nodeOf(problem.ops.size()) {
    for (const Problem::Tensor &tensor : problem.tensors)
      if (tensor.role == Problem::Role::parameter)
        states.insert(tensor.name);
  }

  LayerProfile sizes() {
    for (int i = 0; i <= groups.loss; ++i)
      for (int t : problem.ops[i].results)
        if (!problem.tensors[t].splat)
          maker[t] = i;
    findNodes();
    LayerProfile profile = joinNodes();
    for (int i = 0; i <= groups.loss; ++i)
      if (Node *node = nodeOf[i])
        addSizes(profile, problem.ops[i], node->layer);
    return profile;
  }

  /// The layer of a call's nodes; -1 for those of the update and others.
  int layerOf(StringRef names) const {
    std::string name = firstNode(names);
    if (auto it = nodes.find(name); it != nodes.end())
      return it->second->layer;
    auto it = ofWeights.find(name);
    return it == ofWeights.end() ? -1 : it->second;
  }
  std::string lossNode() const { return groups.loss >= 0 ? firstNode(problem.ops[groups.loss].name) : ""; }

private:
  /// Whether an operation of the step is a part of a layer: none of the update, of the evaluation or of weights, and no
  /// view, which passes may join with others.
  bool isOfLayer(const Problem::Op &op) const {
    std::string node = firstNode(op.name);
    // Operations of an update that need no gradient may come early, and are named after the parameter.
    return !op.forward && !op.seldom && op.form != graph::Form::view && !node.empty() && node != "update" &&
           !states.count(node) &&
           !llvm::all_of(op.results, [&](int t) { return problem.tensors[t].weight; });
  }
  /// The node that computes a tensor; null if it belongs to no layer.
  Node *makerOf(int tensor) const { return maker[tensor] < 0 ? nullptr : nodeOf[maker[tensor]]; }

  /// What a tensor is a view of, or itself.
  int sourceOf(int tensor) const {
    while (maker[tensor] >= 0 && problem.ops[maker[tensor]].form == graph::Form::view)
      tensor = problem.ops[maker[tensor]].operands[0];
    return tensor;
  }

  void findNodes() {
    for (int i = 0; i <= groups.loss; ++i)
      if (const Problem::Op &op = problem.ops[i]; isOfLayer(op)) {
        Node *&node = nodes[firstNode(op.name)];
        if (!node)
          node = &inOrder.emplace_back(Node{firstNode(op.name)});
        nodeOf[i] = node;
      }
    for (int i = 0; i <= groups.loss; ++i)
      if (Node *node = nodeOf[i])
        for (int t : problem.ops[i].operands)
          if (Node *from = makerOf(sourceOf(t)); from && from != node)
            node->inputs.insert(from);
  }

  /// A layer without sizes for every set of nodes that read each other.
  LayerProfile joinNodes() {
    LayerProfile profile;
    Node all;
    for (Node &node : inOrder)
      all.inputs.insert(&node);
    std::vector<std::vector<Node *>> sets;
    for (auto it = llvm::scc_begin(&all); !it.isAtEnd(); ++it)
      sets.push_back(*it);
    std::map<Node *, int> setOf;
    for (auto [i, set] : llvm::enumerate(sets))
      for (Node *node : set)
        setOf[node] = i;
    for (Node &node : inOrder)
      if (node.layer < 0) {
        for (Node *other : sets[setOf[&node]])
          other->layer = profile.layers.size();
        profile.layers.emplace_back().name = node.name;
      }
    return profile;
  }

  void addSizes(LayerProfile &profile, const Problem::Op &op, int layer) {
    for (int operand : op.operands) {
      int t = sourceOf(operand);
      addWeights(profile, t, layer);
      Node *node = makerOf(t);
      if (!node || node->layer == layer)
        continue;
      auto &inputs = profile.layers[layer].inputs;
      if (!llvm::is_contained(inputs, node->layer))
        inputs.push_back(node->layer);
      if (sent.insert(t).second)
        profile.layers[node->layer].activationBytes += problem.tensors[t].bytes();
    }
  }

  /// Counts parameters that a tensor is computed from, or is, with the layer unless they are counted.
  void addWeights(LayerProfile &profile, int tensor, int layer) {
    std::vector<int> open = {tensor};
    while (!open.empty()) {
      int t = open.back();
      open.pop_back();
      bool made = maker[t] >= 0;
      if ((made && !problem.tensors[t].weight) || !counted.insert(t).second)
        continue;
      if (problem.tensors[t].role == Problem::Role::parameter)
        profile.layers[layer].parameterBytes += problem.tensors[t].bytes();
      if (made) {
        const Problem::Op &op = problem.ops[maker[t]];
        ofWeights.try_emplace(firstNode(op.name), layer);
        open.insert(open.end(), op.operands.begin(), op.operands.end());
      }
    }
  }

  const Problem &problem;
  Groups groups;
  std::vector<int> maker;        // by tensor: the operation that computes it
  std::set<std::string> states;  // names of parameters
  std::vector<Node *> nodeOf;    // by operation; null: it belongs to no layer
  std::deque<Node> inOrder;
  std::map<std::string, Node *> nodes;
  std::map<std::string, int> ofWeights; // nodes that compute weights alone: the layer
  std::set<int> sent, counted;          // tensors that other layers read; weights
};
} // namespace

llvm::Expected<LayerProfile> compiler::layerTimes(const Problem &problem, const std::string &runFile) {
  auto text = llvm::MemoryBuffer::getFile(runFile, /*IsText=*/true);
  if (!text)
    return llvm::createStringError("cannot read '" + runFile + "': " + text.getError().message());
  Layers layers(problem);
  LayerProfile profile = layers.sizes();
  for (LayerProfile::Layer &layer : profile.layers)
    llvm::sort(layer.inputs);
  std::string loss = layers.lossNode();
  bool backward = false;
  for (llvm::line_iterator line(**text); !line.is_at_end(); ++line) {
    auto parsed = json::parse(*line);
    const json::Object *call = parsed ? parsed->getAsObject() : nullptr;
    if (!parsed)
      llvm::consumeError(parsed.takeError());
    auto name = call ? call->getString("name") : std::nullopt;
    auto time = call ? call->getNumber("us") : std::nullopt;
    if (!call || (line.line_number() > 1 && (!name || !time)))
      return llvm::createStringError(runFile + ":" + std::to_string(line.line_number()) + ": is no line of a profile");
    if (line.line_number() == 1)
      continue;
    int layer = layers.layerOf(*name);
    if (layer < 0)
      continue;
    // The kernel of the loss also computes its gradient.
    bool both = !backward && profile.layers[layer].name == loss;
    backward |= both;
    double milliseconds = *time * 1e-3 * (both ? 0.5 : 1);
    if (both || !backward)
      profile.layers[layer].forwardMs += milliseconds;
    if (both || backward)
      profile.layers[layer].backwardMs += milliseconds;
  }
  return profile;
}

llvm::Expected<LayerProfile> compiler::layerTimes(mlir::ModuleOp module, const std::string &runFile) {
  separateScalars(module);
  auto problem = ModuleProblem::build(module);
  if (failed(problem))
    return told();
  return layerTimes(problem->problem, runFile);
}
