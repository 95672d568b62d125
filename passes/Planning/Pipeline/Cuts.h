#pragma once
#include "passes/Planning/Pipeline/LayerProfile.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace divisi::planning {

/// All places where a network can be cut: its downsets (with a layer, all its inputs are inside), by increasing size.
/// Cut 0 has no layer inside, the last cut has all. A stage consists of the layers between one cut and a later one that
/// contains it.
///
/// Of some sizes there is only one downset: it contains all smaller ones, and all larger ones contain it. These divide
/// the cuts into blocks, so only cuts of the same block can cross each other. In a chain every cut is a block; a module
/// of parallel branches is one block.
/// parallel branches is a block.
class Cuts {
public:
  static constexpr size_t most = 1 << 18;
  static constexpr size_t mostInBlock = 1 << 14;
  static constexpr size_t mostWords = 1 << 24; // of all sets

  /// The profile must outlive the result. Fails if there are more cuts than the limits allow.
  static llvm::Expected<Cuts> of(const LayerProfile &profile);

  struct Cut {
    double ms = 0;             // forward and backward of the layers inside
    double parameterBytes = 0; // of the layers inside
    double crossingBytes = 0;  // outputs of layers inside with a consumer outside, each once
    int block = -1;            // -1: cut 0
    size_t words = 0;          // where its set starts
  };
  /// Cuts first .. end-1; the last one contains the others.
  struct Block {
    int first = 0, end = 0;
    int firstLayer = 0, endLayer = 0; // layers in which the cuts differ
    size_t words = 0;                 // of 64 layers, for each cut
  };

  int count() const { return static_cast<int>(cuts.size()); }
  const Cut &operator[](int cut) const { return cuts[cut]; }
  const std::vector<Block> &blocks() const { return allBlocks; }
  /// For two cuts of one block.
  bool containsInBlock(int outer, int inner) const {
    const uint64_t *a = &sets[cuts[outer].words], *b = &sets[cuts[inner].words];
    for (size_t w = 0, end = allBlocks[cuts[outer].block].words; w < end; ++w)
      if (b[w] & ~a[w])
        return false;
    return true;
  }
  bool contains(int outer, int inner) const {
    return cuts[inner].block < cuts[outer].block ||
           (cuts[inner].block == cuts[outer].block && (cuts[inner].block < 0 || containsInBlock(outer, inner)));
  }
  /// In topological order.
  std::vector<int> layersBetween(int inner, int outer) const;

private:
  explicit Cuts(const LayerProfile &profile);
  std::vector<int> separators() const;
  bool addBlock(int firstLayer, int endLayer);
  void grow(int from, int layer);
  bool inside(const Cut &cut, int layer) const;

  const LayerProfile *profile;
  std::vector<std::vector<int>> consumers; // by layer, rising
  std::vector<Cut> cuts;
  std::vector<Block> allBlocks;
  std::vector<uint64_t> sets; // of cuts, the layers of their block
};

} // namespace divisi::planning
