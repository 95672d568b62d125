#pragma once
#include "passes/Planning/Pipeline/LayerProfile.h"

namespace divisi::planning {

/// Sorts layers topologically: always the first layer of the file whose inputs are sorted comes next. The inputs of
/// `layers` are indices into it, each once. If they go round in a cycle, the result is a layer on it, and `profile` is
/// unchanged.
std::optional<size_t> sortLayers(std::vector<LayerProfile::Layer> layers, LayerProfile &profile);

/// The largest figures of a profile: sums and quotients of these stay finite.
constexpr double mostMs = 1e12, mostBytes = 1e18;

} // namespace divisi::planning
