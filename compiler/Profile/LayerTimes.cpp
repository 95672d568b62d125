#include "compiler/Profile/LayerTimes.h"

#include "passes/Planning/Search/Groups.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/LineIterator.h"
#include "llvm/Support/MemoryBuffer.h"

#include <set>

using namespace divisi;
using namespace divisi::compiler;
using namespace divisi::planning;
namespace json = llvm::json;
using llvm::StringRef;

namespace {

/// The first of the nodes of an operation or a call.
std::string firstNode(StringRef names) { return names.split(' ').first.str(); }

class Layers {
public:
  explicit Layers(const Problem &problem) : problem(problem), groups(problem, /*evaluation=*/false) {}

  LayerProfile sizes() {
    LayerProfile profile;
    std::vector<int> maker(problem.tensors.size(), -1); // by tensor: the layer that computes it
    std::set<int> counted;
    std::set<std::string> states; // operations of an update that need no gradient may come early, and are named after them
    for (const Problem::Tensor &tensor : problem.tensors)
      if (tensor.role == Problem::Role::parameter)
        states.insert(tensor.name);
    for (int i = 0; i <= groups.loss; ++i) {
      const Problem::Op &op = problem.ops[i];
      std::string node = firstNode(op.name);
      if (op.forward || op.seldom || node.empty() || node == "update" || states.count(node))
        continue;
      auto [it, fresh] = numbers.try_emplace(node, profile.layers.size());
      int layer = it->second;
      if (fresh)
        profile.layers.emplace_back().name = node;
      for (int t : op.operands) {
        const Problem::Tensor &tensor = problem.tensors[t];
        if (tensor.role == Problem::Role::parameter && counted.insert(t).second)
          profile.layers[layer].parameterBytes += tensor.bytes();
        int from = maker[t];
        if (from < 0 || from == layer)
          continue;
        auto &inputs = profile.layers[layer].inputs;
        if (!llvm::is_contained(inputs, from))
          inputs.push_back(from);
        if (sent.insert(t).second)
          profile.layers[from].activationBytes += tensor.bytes();
      }
      for (int t : op.results)
        if (!problem.tensors[t].splat)
          maker[t] = layer;
    }
    return profile;
  }

  /// The layer of a call's nodes; -1 for those of the update and others.
  int layerOf(StringRef names) const {
    auto it = numbers.find(firstNode(names));
    return it == numbers.end() ? -1 : it->second;
  }
  std::string lossNode() const { return groups.loss >= 0 ? firstNode(problem.ops[groups.loss].name) : ""; }

private:
  const Problem &problem;
  Groups groups;
  std::map<std::string, int> numbers;
  std::set<int> sent; // tensors that other layers read
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
