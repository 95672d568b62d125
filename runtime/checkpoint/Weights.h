//===- Weights.h - where state comes from and goes to -----------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CHECKPOINT_WEIGHTS_H
#define DIVISI_RUNTIME_CHECKPOINT_WEIGHTS_H

#include "runtime/checkpoint/GlobalState.h"
#include "runtime/checkpoint/Safetensors.h"

namespace divisi::runtime {

/// The element type and the shape of a tensor by its name, where there is one.
using TensorLookup = std::function<std::optional<std::pair<DataType, Shape>>(const std::string &)>;

/// Whether a file, which `what` names, has the state that `wanted` selects, each under its name, type and whole shape.
Status checkState(const Manifest &manifest, const StateFilter &wanted, const std::string &what,
                  const TensorLookup &find);

/// Reads the state that `wanted` selects from a file, which must have each under its name, type and whole shape: this
/// rank's piece of what is here goes to the arena. `hashes` (ChunkHasher's; or empty) must be those of what is read.
Status loadWeights(const Manifest &manifest, const Arena &arena, const std::string &path, const std::string &hashes,
                   const StateFilter &wanted);

/// Fills what has an `init` with random numbers: the same for the same seed, names and whole shapes.
void initialize(const Manifest &manifest, const Arena &arena, uint64_t seed);

/// Writes the state that `wanted` selects, whole. All ranks call it, and all hear of a failure to write.
Status saveState(GlobalState &state, const std::string &path, const StateFilter &wanted,
                 const std::map<std::string, std::string> &metadata = {});

/// Writes parameters, buffers and constants under the model's own names.
Status saveWeights(GlobalState &state, const std::string &path);
inline Status saveWeights(const Manifest &manifest, const Arena &arena, const std::string &path) {
  GlobalState state(manifest, arena);
  return saveWeights(state, path);
}

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CHECKPOINT_WEIGHTS_H
