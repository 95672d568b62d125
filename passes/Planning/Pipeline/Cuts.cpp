#include "passes/Planning/Pipeline/Cuts.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace divisi;
using namespace divisi::planning;

Cuts::Cuts(LayerGraph graph, size_t limit) : network(std::move(graph)), limit(limit), cuts(1) {}

std::optional<Cuts> Cuts::of(LayerGraph graph, size_t limit) {
  Cuts cuts(std::move(graph), limit);
  int begin = 0;
  for (int end : cuts.separators()) {
    if (!cuts.addBlock(begin, end))
      return std::nullopt;
    begin = end;
  }
  return cuts;
}

/// The sizes, except 0, of which there is only one downset. A downset is the only one of its size if each of its last
/// layers (no consumer inside) feeds each of the first layers outside (all inputs inside): otherwise two of them could
/// be exchanged. Its layers are then the first ones of every topological order.
std::vector<int> Cuts::separators() const {
  int count = network.size();
  std::vector<bool> last(count), first(count);
  std::vector<size_t> missing(count);
  int64_t lasts = 0, firsts = 0, edges = 0; // edges from a last to a first layer
  auto toFirsts = [&](int node) {
    return llvm::count_if(network.nodes[node].consumers, [&](int c) { return first[c]; });
  };
  auto fromLasts = [&](int node) { return llvm::count_if(network.nodes[node].inputs, [&](int i) { return last[i]; }); };
  for (int i = 0; i < count; ++i) {
    missing[i] = network.nodes[i].inputs.size();
    first[i] = missing[i] == 0;
    firsts += first[i];
  }
  std::vector<int> sizes;
  for (int i = 0; i < count; ++i) {
    edges -= fromLasts(i);
    first[i] = false;
    --firsts;
    for (int input : network.nodes[i].inputs)
      if (last[input]) {
        edges -= toFirsts(input);
        last[input] = false;
        --lasts;
      }
    last[i] = true;
    ++lasts;
    for (int consumer : network.nodes[i].consumers)
      if (--missing[consumer] == 0) {
        first[consumer] = true;
        ++firsts;
        edges += fromLasts(consumer);
      }
    if (edges == lasts * firsts)
      sizes.push_back(i + 1);
  }
  return sizes;
}

bool Cuts::inside(const Cut &cut, int node) const {
  if (cut.block < 0)
    return false;
  const Block &block = allBlocks[cut.block];
  if (node < block.firstNode || node >= block.endNode)
    return node < block.firstNode;
  int bit = node - block.firstNode;
  return sets[cut.words + bit / 64] >> (bit % 64) & 1;
}

/// Adds the cut with one more node. The node is the last one of the new cut in topological order, so every cut is
/// derived from exactly one other, and sums of cuts that contain each other rise in spite of rounding.
void Cuts::grow(int from, int node) {
  const Block &block = allBlocks.back();
  const LayerGraph::Node &added = network.nodes[node];
  Cut cut = cuts[from];
  size_t words = sets.size();
  if (cut.block == static_cast<int>(allBlocks.size()) - 1)
    for (size_t w = 0; w < block.words; ++w)
      sets.push_back(sets[cut.words + w]);
  else
    sets.resize(words + block.words);
  int bit = node - block.firstNode;
  sets[words + bit / 64] |= uint64_t(1) << (bit % 64);
  cut.words = words;
  cut.block = static_cast<int>(allBlocks.size()) - 1;
  ++cut.size;
  cut.ms += added.ms;
  cut.parameterBytes += added.parameterBytes;
  for (int value : added.produced)
    cut.crossingBytes += network.values[value].bytes;
  for (int value : added.consumed) { // the last consumers are the most likely to be outside
    const std::vector<int> &users = network.values[value].consumers;
    if (std::all_of(users.rbegin(), users.rend(), [&](int user) { return inside(cut, user); }))
      cut.crossingBytes -= network.values[value].bytes;
  }
  cut.crossingBytes = std::max(cut.crossingBytes, 0.0); // against rounding
  cuts.push_back(cut);
}

bool Cuts::addBlock(int firstNode, int endNode) {
  int begin = count() - 1; // the separator before the block
  Block &block = allBlocks.emplace_back();
  block.first = count();
  block.firstNode = firstNode;
  block.endNode = endNode;
  block.words = (endNode - firstNode + 63) / 64;
  auto ready = [&](int cut, int node) {
    const std::vector<int> &inputs = network.nodes[node].inputs;
    return std::all_of(inputs.rbegin(), inputs.rend(), [&](int input) { return inside(cuts[cut], input); });
  };
  std::vector<std::vector<int>> next(1); // by cut from `begin`: the nodes that may be added, after its last one
  for (int node = firstNode; node < endNode; ++node)
    if (ready(begin, node))
      next[0].push_back(node);
  for (int from = begin; from < count(); ++from) {
    std::vector<int> nodes = std::move(next[from - begin]);
    for (auto node = nodes.begin(); node != nodes.end(); ++node) {
      grow(from, *node);
      if (cuts.size() > limit || sets.size() > mostWords)
        return false;
      std::vector<int> &after = next.emplace_back(node + 1, nodes.end());
      for (int consumer : network.nodes[*node].consumers)
        if (consumer < endNode && ready(count() - 1, consumer))
          after.push_back(consumer);
      std::sort(after.begin(), after.end());
    }
  }
  block.end = count();
  std::sort(cuts.begin() + block.first, cuts.end(),
            [](const Cut &a, const Cut &b) { return a.ms != b.ms ? a.ms < b.ms : a.size < b.size; });
  return true;
}

std::vector<int> Cuts::nodesBetween(int inner, int outer) const {
  std::vector<int> nodes;
  int begin = cuts[inner].block < 0 ? 0 : allBlocks[cuts[inner].block].firstNode;
  int end = cuts[outer].block < 0 ? 0 : allBlocks[cuts[outer].block].endNode;
  for (int node = begin; node < end; ++node)
    if (inside(cuts[outer], node) && !inside(cuts[inner], node))
      nodes.push_back(node);
  return nodes;
}

std::vector<int> Cuts::layersBetween(int inner, int outer) const {
  std::vector<int> layers;
  for (int node : nodesBetween(inner, outer))
    layers.insert(layers.end(), network.nodes[node].layers.begin(), network.nodes[node].layers.end());
  std::sort(layers.begin(), layers.end());
  return layers;
}
