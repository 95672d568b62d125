#pragma once
#include "passes/Planning/Search/Planner.h"

namespace divisi::planning {

/// What one layer of the user's model costs under a plan: times in seconds, sizes in bytes on one device.
struct LayerCost {
  std::string name; // of the ONNX node's folder: "/blocks.3/attn"; "" for what has no node (losses, updates)
  double forward = 0, backward = 0;
  double shown = 0, hidden = 0; // communication
  double parameters = 0;        // bytes
  std::vector<int> collectives; // of the prediction
  std::vector<int> weights;     // parameters (tensors) that its operations read first
};

/// Layers in the order of the model. The update's work is in the layer without a name.
std::vector<LayerCost> layerCosts(const Problem &problem, const Candidate &candidate);

/// The layer of a node: its name up to the last '/'; a node at the top is its own.
std::string layerOf(const std::string &node);

/// In words: what a reshard step does to which value, and for whose sake.
std::string reasonOf(const Problem &problem, const Candidate &candidate, const Prediction::Collective &collective);

} // namespace divisi::planning
