#pragma once
#include "passes/Planning/Pipeline/LayerGraph.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace divisi::planning {

/// All places where a graph of layers can be cut: its downsets (with a node, all its inputs are inside), block by
/// block, and in a block by increasing compute time and size. Cut 0 has no node inside, the last cut has all. A stage
/// consists of the nodes between one cut and a later one that contains it.
///
/// Of some sizes there is only one downset: it contains all smaller ones, and all larger ones contain it. These divide
/// the cuts into blocks, so only cuts of the same block can cross each other. In a chain every cut is a block; a module
/// of parallel branches is one block.
class Cuts {
public:
  static constexpr size_t most = 1 << 18;
  static constexpr size_t mostWords = 1 << 24; // of all sets

  /// Null if the graph has more than `limit` cuts, or their sets need too much memory.
  static std::optional<Cuts> of(LayerGraph graph, size_t limit = most);

  struct Cut {
    double ms = 0;             // forward and backward of the nodes inside
    double parameterBytes = 0; // of the nodes inside
    double crossingBytes = 0;  // outputs of nodes inside with a consumer outside, each once
    int block = -1;            // -1: cut 0
    int size = 0;              // nodes inside
    size_t words = 0;          // where its set starts
  };
  /// Cuts first .. end-1; the last one contains the others.
  struct Block {
    int first = 0, end = 0;
    int firstNode = 0, endNode = 0; // nodes in which the cuts differ
    size_t words = 0;               // of 64 nodes, for each cut
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
  const LayerGraph &graph() const { return network; }
  std::vector<int> nodesBetween(int inner, int outer) const;
  /// The layers of these nodes, rising: in topological order.
  std::vector<int> layersBetween(int inner, int outer) const;

private:
  Cuts(LayerGraph graph, size_t limit);
  std::vector<int> separators() const;
  bool addBlock(int firstNode, int endNode);
  void grow(int from, int node);
  bool inside(const Cut &cut, int node) const;

  LayerGraph network;
  size_t limit;
  std::vector<Cut> cuts;
  std::vector<Block> allBlocks;
  std::vector<uint64_t> sets; // of cuts, the nodes of their block
};

} // namespace divisi::planning
