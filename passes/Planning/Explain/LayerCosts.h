#pragma once
#include "passes/Planning/Search/Planner.h"

namespace divisi::planning {

/// The cost of one layer of the user's model under a plan: times in seconds, sizes in bytes on one device.
struct LayerCost {
  std::string name; // the nodes' module scope: "/blocks.3/attn"; "" for operations without a node (losses, updates)
  double forward = 0, backward = 0;
  double shown = 0, hidden = 0; // exposed and overlapped communication
  double parameters = 0;        // bytes
  std::vector<int> collectives; // of the prediction
  std::vector<int> weights;     // parameters (tensors) that its operations are the first to read
};

/// Layers in the order of the model. The operations of the update belong to the layer without a name.
std::vector<LayerCost> layerCosts(const Problem &problem, const Candidate &candidate);

/// The layer of a node: its name up to the last '/'. A node without a scope is a layer itself.
std::string layerOf(const std::string &node);

/// Says in words what a reshard step does to which value, and for which use.
std::string reasonOf(const Problem &problem, const Candidate &candidate, const Prediction::Collective &collective);

} // namespace divisi::planning
