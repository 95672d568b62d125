#include "runtime/checkpoint/Weights.h"
#include "runtime/core/Hash.h"

#include <cmath>
#include <cstring>
#include <numbers>

using namespace divisi::runtime;

namespace {
/// The generator of one tensor: numbers by index.
class Random {
public:
  Random(uint64_t seed, const std::string &name) {
    state = mix64(seed);
    for (unsigned char c : name)
      state = mix64(state ^ c);
  }
  /// In [0, 1).
  double uniform(int64_t index) const {
    return static_cast<double>(mix64(state + static_cast<uint64_t>(index) * 0x9e3779b97f4a7c15u) >> 11) * 0x1p-53;
  }
  /// By Box and Muller.
  double normal(int64_t index) const {
    double radius = std::sqrt(-2 * std::log(1 - uniform(2 * index)));
    return radius * std::cos(2 * std::numbers::pi * uniform(2 * index + 1));
  }

private:
  uint64_t state;
};
} // namespace

Status divisi::runtime::readState(const Manifest &manifest, const Arena &arena, const SafetensorsFile &file,
                                  const StateFilter &wanted) {
  int64_t missing = 0;
  std::string first;
  for (const State &state : manifest.state) {
    if (!wanted(state))
      continue;
    auto it = file.entries().find(state.name);
    if (it == file.entries().end()) {
      first = missing++ == 0 ? state.name : first;
      continue;
    }
    const SafetensorsFile::Entry &entry = it->second;
    if (entry.dtype != state.dtype || entry.shape != state.shape)
      return failure("'", file.path(), "' has '", state.name, "' as ", nameOf(entry.dtype), " ", toString(entry.shape),
                     ", but the model needs ", nameOf(state.dtype), " ", toString(state.shape));
  }
  if (missing > 0)
    return failure("'", file.path(), "' lacks ", missing, " of the model's tensors, '", first, "' first");
  for (const State &state : manifest.state)
    if (wanted(state) && state.bytes > 0)
      std::memcpy(arena.at(state), file.entries().at(state.name).data, static_cast<size_t>(state.bytes));
  return {};
}

Status divisi::runtime::loadWeights(const Manifest &manifest, const Arena &arena, const std::string &path,
                                    const std::string &hash, const StateFilter &wanted) {
  Result<SafetensorsFile> file = SafetensorsFile::open(path);
  if (!file.ok())
    return file.status();
  if (!hash.empty() && fnv1a64(file->contents().data(), file->contents().size()) != hash)
    return failure("'", path,
                   "' is not the weights file that this program was compiled with: its contents have changed "
                   "(--weights ",
                   path, " uses it all the same)");
  return readState(manifest, arena, *file, wanted);
}

void divisi::runtime::initialize(const Manifest &manifest, const Arena &arena, uint64_t seed) {
  for (const State &state : manifest.state) {
    if (!state.init)
      continue;
    Random random(seed, state.name);
    double value = state.init->value;
    int64_t width = widthOf(state.dtype);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < state.elements(); ++i) {
      double x = value;
      if (state.init->kind == Initial::Kind::Uniform)
        x = value * (2 * random.uniform(i) - 1);
      else if (state.init->kind == Initial::Kind::Normal)
        x = value * random.normal(i);
      writeNumber(arena.at(state) + i * width, state.dtype, x);
    }
  }
}

std::vector<NamedTensor> divisi::runtime::tensorsOf(const Manifest &manifest, const Arena &arena,
                                                    const StateFilter &wanted) {
  std::vector<NamedTensor> tensors;
  for (const State &state : manifest.state)
    if (wanted(state))
      tensors.push_back({state.name, state.dtype, state.shape, arena.at(state), static_cast<size_t>(state.bytes)});
  return tensors;
}

Status divisi::runtime::saveWeights(const Manifest &manifest, const Arena &arena, const std::string &path) {
  return writeSafetensors(path, tensorsOf(manifest, arena, [](const State &s) { return s.isWeight(); }),
                          {{"format", "pt"}, {"producer", "divisi"}});
}
