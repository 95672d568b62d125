#include "passes/Planning/Pipeline/LayerOrder.h"
#include "llvm/ADT/STLExtras.h"

#include <functional>
#include <queue>

using namespace divisi::planning;

namespace {

/// From a layer that lacks an input, following such layers backwards leads to a cycle.
size_t onCycle(const std::vector<LayerProfile::Layer> &layers, const std::vector<size_t> &missing) {
  size_t at = llvm::find_if(missing, [](size_t count) { return count > 0; }) - missing.begin();
  std::vector<bool> seen(layers.size());
  while (!seen[at]) {
    seen[at] = true;
    at = *llvm::find_if(layers[at].inputs, [&](int input) { return missing[input] > 0; });
  }
  return at;
}

} // namespace

std::optional<size_t> divisi::planning::sortLayers(std::vector<LayerProfile::Layer> layers, LayerProfile &profile) {
  std::vector<std::vector<int>> consumers(layers.size());
  std::vector<size_t> missing;
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (auto [i, layer] : llvm::enumerate(layers)) {
    missing.push_back(layer.inputs.size());
    for (int input : layer.inputs)
      consumers[input].push_back(static_cast<int>(i));
    if (layer.inputs.empty())
      ready.push(static_cast<int>(i));
  }
  std::vector<int> order, position(layers.size());
  while (!ready.empty()) {
    int next = ready.top();
    ready.pop();
    position[next] = static_cast<int>(order.size());
    order.push_back(next);
    for (int consumer : consumers[next])
      if (--missing[consumer] == 0)
        ready.push(consumer);
  }
  if (order.size() < layers.size())
    return onCycle(layers, missing);
  for (int i : order) {
    LayerProfile::Layer &layer = profile.layers.emplace_back(std::move(layers[i]));
    for (int &input : layer.inputs)
      input = position[input];
    llvm::sort(layer.inputs);
  }
  return std::nullopt;
}
