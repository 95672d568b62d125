#pragma once
#include "passes/Planning/Pipeline/LayerProfile.h"

#include <vector>

namespace divisi::planning {

/// Groups of layers that share a stage: disjoint sets.
class LayerGroups {
public:
  explicit LayerGroups(size_t layers);
  /// The same number for all layers of a group: one of its layers.
  int find(int layer) const;
  /// Whether they were two groups before.
  bool unite(int a, int b);
  size_t size(int layer) const { return sizes[find(layer)]; }

  /// Joins layers that cost no time and have no parameters with their only producer or consumer, if moving them across
  /// any cut to that side adds no bytes to what crosses. The best plan stays as good.
  void joinFreeLayers(const LayerProfile &profile);
  /// Joins each layer whose output has more than `most` bytes with the consumers of it, and what lies between them: no
  /// cut that sends at most that many bytes is lost.
  void joinAcross(const LayerProfile &profile, double most);

private:
  mutable std::vector<int> parent;
  std::vector<size_t> sizes;
};

/// A profile of layers as a graph of groups, for partitioners.
struct LayerGraph {
  /// An output of a layer that other groups read.
  struct Value {
    double bytes;
    std::vector<int> consumers; // nodes, rising
  };
  struct Node {
    double ms = 0, parameterBytes = 0; // ms: forward and backward
    std::vector<int> layers;           // rising
    std::vector<int> inputs;           // nodes that come before it, rising
    std::vector<int> consumers;        // nodes that have it among their inputs, rising
    std::vector<int> produced;         // values
    std::vector<int> consumed;         // values
  };
  std::vector<Node> nodes; // in topological order
  std::vector<Value> values;

  /// The groups must not go round in a cycle.
  LayerGraph(const LayerProfile &profile, const LayerGroups &groups);
  int size() const { return static_cast<int>(nodes.size()); }

  /// The graph with its nodes in another topological order, `order`, in which the nodes from `first` to `end` - 1 of
  /// each of `windows` (which are disjoint and rise) are free and each other node has to follow those before it. Its
  /// downsets are some of this graph's.
  struct Window {
    int first, end;
  };
  LayerGraph restricted(const std::vector<int> &order, const std::vector<Window> &windows) const;
};

} // namespace divisi::planning
