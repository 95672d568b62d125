//===- Weights.h - reading and writing weights ------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CHECKPOINT_WEIGHTS_H
#define DIVISI_RUNTIME_CHECKPOINT_WEIGHTS_H

#include "runtime/checkpoint/GlobalState.h"
#include "runtime/checkpoint/Safetensors.h"

namespace divisi::runtime {

/// The element type and the shape of a tensor by its name; null if there is none.
using TensorLookup = std::function<std::optional<std::pair<DataType, Shape>>(const std::string &)>;

/// Checks that a file, which `what` names, contains the state that `wanted` selects, each tensor with its name, type
/// and whole shape.
Status checkState(const Manifest &manifest, const StateFilter &wanted, const std::string &what,
                  const TensorLookup &find);

/// Reads the state that `wanted` selects from a file, which must contain each tensor with its name, type and whole
/// shape. This rank's shards are copied to the arena. `hashes` (a ChunkHasher's; or empty) must match what is read.
Status loadWeights(const Manifest &manifest, const Arena &arena, const std::string &path, const std::string &hashes,
                   const StateFilter &wanted);

/// Fills state that has an `init` with random numbers, which depend only on the seed, names and whole shapes.
void initialize(const Manifest &manifest, const Arena &arena, uint64_t seed);

/// Writes the state that `wanted` selects as whole tensors. All ranks call it, and a failure to write is returned on
/// all.
Status saveState(GlobalState &state, const std::string &path, const StateFilter &wanted,
                 const std::map<std::string, std::string> &metadata = {});

/// Writes parameters, buffers and constants under their names in the model.
Status saveWeights(GlobalState &state, const std::string &path);
inline Status saveWeights(const Manifest &manifest, const Arena &arena, const std::string &path) {
  GlobalState state(manifest, arena);
  return saveWeights(state, path);
}

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CHECKPOINT_WEIGHTS_H
