#include "passes/Planning/Pipeline/Cuts.h"

#include <algorithm>

using namespace divisi;
using namespace divisi::planning;

Cuts::Cuts(const LayerProfile &profile) : profile(&profile), consumers(profile.layers.size()), cuts(1) {
  for (size_t i = 0; i < profile.layers.size(); ++i)
    for (int input : profile.layers[i].inputs)
      consumers[input].push_back(static_cast<int>(i));
}

llvm::Expected<Cuts> Cuts::of(const LayerProfile &profile) {
  Cuts cuts(profile);
  int begin = 0;
  for (int end : cuts.separators()) {
    if (!cuts.addBlock(begin, end))
      return llvm::createStringError("too many ways to cut the layers from '" + shownName(profile.layers[begin].name) +
                                     "' to '" + shownName(profile.layers[end - 1].name) + "' (more than " +
                                     std::to_string(mostInBlock) +
                                     "): too many branches side by side; join layers of theirs");
    begin = end;
  }
  return cuts;
}

/// The sizes, except 0, of which there is only one downset. A downset is the only one of its size if each of its last
/// layers (no consumer inside) feeds each of the first layers outside (all inputs inside): otherwise two of them could
/// be exchanged. Its layers are then the first ones of every topological order.
std::vector<int> Cuts::separators() const {
  int count = static_cast<int>(profile->layers.size());
  std::vector<bool> last(count), first(count);
  std::vector<size_t> missing(count);
  int64_t lasts = 0, firsts = 0, edges = 0; // edges from a last to a first layer
  auto toFirsts = [&](int layer) {
    return std::count_if(consumers[layer].begin(), consumers[layer].end(), [&](int c) { return first[c]; });
  };
  auto fromLasts = [&](int layer) {
    const std::vector<int> &inputs = profile->layers[layer].inputs;
    return std::count_if(inputs.begin(), inputs.end(), [&](int i) { return last[i]; });
  };
  for (int i = 0; i < count; ++i) {
    missing[i] = profile->layers[i].inputs.size();
    first[i] = missing[i] == 0;
    firsts += first[i];
  }
  std::vector<int> sizes;
  for (int i = 0; i < count; ++i) {
    edges -= fromLasts(i);
    first[i] = false;
    --firsts;
    for (int input : profile->layers[i].inputs)
      if (last[input]) {
        edges -= toFirsts(input);
        last[input] = false;
        --lasts;
      }
    last[i] = true;
    ++lasts;
    for (int consumer : consumers[i])
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

bool Cuts::inside(const Cut &cut, int layer) const {
  if (cut.block < 0)
    return false;
  const Block &block = allBlocks[cut.block];
  if (layer < block.firstLayer || layer >= block.endLayer)
    return layer < block.firstLayer;
  int bit = layer - block.firstLayer;
  return sets[cut.words + bit / 64] >> (bit % 64) & 1;
}

/// Adds the cut with one more layer. The layer is the last one of the new cut in topological order, so every cut is
/// derived from exactly one other.
void Cuts::grow(int from, int layer) {
  const Block &block = allBlocks.back();
  const LayerProfile::Layer &added = profile->layers[layer];
  Cut cut = cuts[from];
  size_t words = sets.size();
  if (cut.block == static_cast<int>(allBlocks.size()) - 1)
    for (size_t w = 0; w < block.words; ++w)
      sets.push_back(sets[cut.words + w]);
  else
    sets.resize(words + block.words);
  int bit = layer - block.firstLayer;
  sets[words + bit / 64] |= uint64_t(1) << (bit % 64);
  cut.words = words;
  cut.block = static_cast<int>(allBlocks.size()) - 1;
  cut.ms += added.forwardMs + added.backwardMs;
  cut.parameterBytes += added.parameterBytes;
  if (!consumers[layer].empty())
    cut.crossingBytes += added.activationBytes;
  for (int input : added.inputs) { // the last consumers are the most likely to be outside
    const std::vector<int> &users = consumers[input];
    if (std::all_of(users.rbegin(), users.rend(), [&](int user) { return inside(cut, user); }))
      cut.crossingBytes -= profile->layers[input].activationBytes;
  }
  cut.crossingBytes = std::max(cut.crossingBytes, 0.0); // against rounding
  cuts.push_back(cut);
}

bool Cuts::addBlock(int firstLayer, int endLayer) {
  int begin = count() - 1; // the separator before the block
  Block &block = allBlocks.emplace_back();
  block.first = count();
  block.firstLayer = firstLayer;
  block.endLayer = endLayer;
  block.words = (endLayer - firstLayer + 63) / 64;
  auto ready = [&](int cut, int layer) {
    const std::vector<int> &inputs = profile->layers[layer].inputs;
    return std::all_of(inputs.rbegin(), inputs.rend(), [&](int input) { return inside(cuts[cut], input); });
  };
  std::vector<std::vector<int>> next(1); // by cut from `begin`: the layers that may be added, after its last one
  for (int layer = firstLayer; layer < endLayer; ++layer)
    if (ready(begin, layer))
      next[0].push_back(layer);
  for (int from = begin; from < count(); ++from) {
    std::vector<int> layers = std::move(next[from - begin]);
    for (auto layer = layers.begin(); layer != layers.end(); ++layer) {
      grow(from, *layer);
      if (cuts.size() > most || cuts.size() - block.first > mostInBlock || sets.size() > mostWords)
        return false;
      std::vector<int> &after = next.emplace_back(layer + 1, layers.end());
      for (int consumer : consumers[*layer])
        if (consumer < endLayer && ready(count() - 1, consumer))
          after.push_back(consumer);
      std::sort(after.begin(), after.end());
    }
  }
  block.end = count();
  return true;
}

std::vector<int> Cuts::layersBetween(int inner, int outer) const {
  std::vector<int> layers;
  int begin = cuts[inner].block < 0 ? 0 : allBlocks[cuts[inner].block].firstLayer;
  int end = cuts[outer].block < 0 ? 0 : allBlocks[cuts[outer].block].endLayer;
  for (int layer = begin; layer < end; ++layer)
    if (inside(cuts[outer], layer) && !inside(cuts[inner], layer))
      layers.push_back(layer);
  return layers;
}
