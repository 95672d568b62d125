#include "runtime/checkpoint/Weights.h"
#include "runtime/checkpoint/CheckedFile.h"
#include "runtime/core/Hash.h"
#include "runtime/core/Launch.h"

#include <cmath>
#include <numbers>

using namespace divisi::runtime;

namespace {
/// The random numbers of one tensor, by index.
class Random {
public:
  Random(uint64_t seed, const std::string &name) {
    state = mix64(seed);
    for (unsigned char c : name)
      state = mix64(state ^ c);
  }
  /// Uniform in [0, 1).
  double uniform(int64_t index) const {
    return randomUnit(mix64(state + static_cast<uint64_t>(index) * golden));
  }
  /// Normal, by the Box-Muller transform.
  double normal(int64_t index) const {
    double radius = std::sqrt(-2 * std::log(1 - uniform(2 * index)));
    return radius * std::cos(2 * std::numbers::pi * uniform(2 * index + 1));
  }

private:
  uint64_t state;
};
} // namespace

Status divisi::runtime::checkState(const Manifest &manifest, const StateFilter &wanted, const std::string &what,
                                   const TensorLookup &find) {
  int64_t missing = 0;
  std::string first;
  for (const State &state : manifest.state) {
    if (!wanted(state))
      continue;
    auto found = find(state.name);
    if (!found)
      first = missing++ == 0 ? state.name : first;
    else if (found->first != state.dtype || found->second != state.wholeShape())
      return failure(what, " has '", state.name, "' as ", nameOf(found->first), " ", toString(found->second),
                     ", but the model needs ", nameOf(state.dtype), " ", toString(state.wholeShape()));
  }
  return missing == 0 ? Status()
                      : failure(what, " lacks ", missing, " of the model's tensors, '", first, "' first");
}

Status divisi::runtime::loadWeights(const Manifest &manifest, const Arena &arena, const std::string &path,
                                    const std::string &hashes, const StateFilter &wanted) {
  Status changed = failure("'", path,
                           "' is not the weights file that this program was compiled with: its contents have changed "
                           "(--weights ",
                           path, " uses it all the same)");
  Result<CheckedFile> file = CheckedFile::open(path, hashes.empty() ? std::nullopt : std::optional(hashes), changed);
  if (!file.ok())
    return file.status();
  const auto &entries = file->file().entries();
  Status status = checkState(manifest, wanted, concat("'", path, "'"), [&](const std::string &name) {
    auto it = entries.find(name);
    return it == entries.end() ? std::nullopt : std::optional(std::pair(it->second.dtype, it->second.shape));
  });
  for (const State &state : manifest.state) {
    if (!status.ok())
      break;
    if (!wanted(state) || !state.here)
      continue;
    const char *whole = entries.at(state.name).data;
    int64_t width = widthOf(state.dtype);
    manifest.sliceOf(state).forEachRun([&](int64_t there, int64_t here, int64_t count) {
      if (status.ok())
        status = file->copy(whole + there * width, static_cast<size_t>(count * width), arena.at(state) + here * width);
    });
  }
  return status;
}

void divisi::runtime::initialize(const Manifest &manifest, const Arena &arena, uint64_t seed) {
  for (const State &state : manifest.state) {
    if (!state.init || !state.here)
      continue;
    Random random(seed, state.name);
    double value = state.init->value;
    int64_t width = widthOf(state.dtype);
    manifest.sliceOf(state).forEachRun([&](int64_t there, int64_t here, int64_t count) {
      constexpr int64_t grain = 4096;
      forEachPiece(count, grain, divisi_team_size(), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          double x = value;
          if (state.init->kind == Initial::Kind::Uniform)
            x = state.init->mean + value * (2 * random.uniform(there + i) - 1);
          else if (state.init->kind == Initial::Kind::Normal)
            x = state.init->mean + value * random.normal(there + i);
          writeNumber(arena.at(state) + (here + i) * width, state.dtype, x);
        }
      });
    });
  }
}

Status divisi::runtime::saveState(GlobalState &state, const std::string &path, const StateFilter &wanted,
                                  const std::map<std::string, std::string> &metadata) {
  std::vector<const State *> chosen;
  std::vector<NamedTensor> tensors;
  for (const State &s : state.manifest().state)
    if (wanted(s)) {
      chosen.push_back(&s);
      tensors.push_back({s.name, s.dtype, s.wholeShape(), nullptr, static_cast<size_t>(s.wholeBytes())});
    }
  TensorContents contents = [&](size_t i) { return state.whole(*chosen[i]); };
  Status status;
  if (state.writes())
    status = writeSafetensors(path, tensors, metadata, contents);
  else
    for (size_t i : writingOrder(tensors))
      if (status.ok())
        status = contents(i).status();
  return state.agree(status);
}

Status divisi::runtime::saveWeights(GlobalState &state, const std::string &path) {
  return saveState(state, path, [](const State &s) { return s.isWeight(); },
                   {{"format", "pt"}, {"producer", "divisi"}});
}
