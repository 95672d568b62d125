//===- Weights.h - where state comes from and goes to -----------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CHECKPOINT_WEIGHTS_H
#define DIVISI_RUNTIME_CHECKPOINT_WEIGHTS_H

#include "runtime/checkpoint/Safetensors.h"
#include "runtime/core/Arena.h"

#include <functional>

namespace divisi::runtime {

/// Which pieces of state a function is about.
using StateFilter = std::function<bool(const State &)>;

/// Reads the state that `wanted` selects from a file, which must have each under its name, type and shape.
Status readState(const Manifest &manifest, const Arena &arena, const SafetensorsFile &file, const StateFilter &wanted);

/// Reads parameters, buffers and constants. A `hash` that is not empty must be that of the file.
Status loadWeights(const Manifest &manifest, const Arena &arena, const std::string &path, const std::string &hash,
                   const StateFilter &wanted);

/// Fills what has an `init` with random numbers: the same for the same seed, names and shapes.
void initialize(const Manifest &manifest, const Arena &arena, uint64_t seed);

/// The tensors that `wanted` selects, as they lie in the arena.
std::vector<NamedTensor> tensorsOf(const Manifest &manifest, const Arena &arena, const StateFilter &wanted);

/// Writes parameters, buffers and constants under the model's own names.
Status saveWeights(const Manifest &manifest, const Arena &arena, const std::string &path);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CHECKPOINT_WEIGHTS_H
