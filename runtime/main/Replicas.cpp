#include "runtime/main/Replicas.h"

#include <algorithm>

using namespace divisi::runtime;

namespace {
/// Small tensors travel together up to this size.
constexpr size_t bucketBytes = size_t(4) << 20;

int64_t typeOf(DataType type) { return type == DataType::F64 ? DIVISI_F64 : DIVISI_F32; }

/// Calls body(pointer to the elements of each tensor, their number) with the element type.
template <typename Body, typename... Places> void withElements(const Tensor &tensor, const Body &body, Places... places) {
  if (tensor.dtype == DataType::F64)
    body(tensor.elements(), reinterpret_cast<double *>(places)...);
  else
    body(tensor.elements(), reinterpret_cast<float *>(places)...);
}
} // namespace

Replicas::Replicas(const Manifest &manifest, const Arena &arena, Communicator &ranks)
    : manifest(manifest), sync(*manifest.sync), arena(arena), ranks(ranks),
      share(1 / static_cast<double>(manifest.mesh.axes()[static_cast<size_t>(sync.axis)].size)),
      nextId(manifest.collectives.empty() ? 0 : manifest.collectives.rbegin()->first + 1) {
  std::map<int64_t, std::vector<Part>> open; // by element type
  std::map<int64_t, size_t> bytes;
  auto close = [&](int64_t type) {
    if (!open[type].empty())
      sums.push_back(reduction(type, DIVISI_SUM, open[type]));
    open[type].clear();
    bytes[type] = 0;
  };
  for (const State &state : manifest.state) {
    if (!state.apart || !state.here || (state.role == Role::Moment && !sync.averageState))
      continue;
    averaged.push_back(&state);
    int64_t type = typeOf(state.dtype);
    open[type].push_back({arena.at(state), state.elements()});
    if ((bytes[type] += static_cast<size_t>(state.bytes)) >= bucketBytes)
      close(type);
  }
  for (int64_t type : {DIVISI_F32, DIVISI_F64})
    close(type);
  numbers.resize(manifest.results.size());
  if (!numbers.empty())
    results.push_back(reduction(DIVISI_F64, DIVISI_SUM, {{numbers.data(), static_cast<int64_t>(numbers.size())}}));
  indices.resize(static_cast<size_t>(
      std::count_if(manifest.results.begin(), manifest.results.end(), [](const Output &o) { return o.kind == "index"; })));
  if (!indices.empty())
    worst.push_back(reduction(DIVISI_F64, DIVISI_MAX, {{indices.data(), static_cast<int64_t>(indices.size())}}));
}

Replicas::Reduction Replicas::reduction(int64_t type, int64_t kind, const std::vector<Part> &parts) {
  static_assert(sizeof(DivisiCollective) % sizeof(int64_t) == 0 && sizeof(DivisiPart) % sizeof(int64_t) == 0);
  Reduction made;
  made.memory =
      std::make_unique<int64_t[]>((sizeof(DivisiCollective) + parts.size() * sizeof(DivisiPart)) / sizeof(int64_t));
  auto *params = reinterpret_cast<DivisiCollective *>(made.memory.get());
  params->id = nextId++;
  params->kind = DIVISI_ALL_REDUCE;
  params->reduction = kind;
  params->type = type;
  params->axis_count = 1;
  params->axes[0] = sync.axis;
  params->part_count = static_cast<int64_t>(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    params->parts[i] = {1, parts[i].elements, 1, 1, 1};
    made.buffers.push_back(parts[i].data);
  }
  made.buffers.insert(made.buffers.end(), made.buffers.begin(), made.buffers.begin() + static_cast<int64_t>(parts.size()));
  ranks.addName(params->id, "all_reduce of what replicas have of their own");
  return made;
}

Status Replicas::run(const std::vector<Reduction> &all) {
  for (const Reduction &one : all)
    if (Status status = ranks.start(one.params(), one.buffers.data()); !status.ok())
      return status;
  return ranks.finish();
}

void Replicas::begin() {
  for (const State &state : manifest.state)
    if (state.here && state.role == Role::Moment && state.name == state.of + anchorSuffix) {
      auto of = std::find_if(manifest.state.begin(), manifest.state.end(), [&](const State &s) { return s.name == state.of; });
      withElements(state, [](int64_t count, auto *to, auto *from) { std::copy(from, from + count, to); }, arena.at(state),
                   arena.at(*of));
    }
}

Status Replicas::meet() {
  if (Status status = run(sums); !status.ok())
    return status;
  for (const State *state : averaged)
    average(*state);
  if (sync.outer != Sync::Outer::Mean)
    for (const State *state : averaged)
      if (state->role == Role::Parameter)
        update(*state);
  return {};
}

void Replicas::average(const State &state) const {
  withElements(
      state,
      [this](int64_t count, auto *x) {
        auto scale = static_cast<std::decay_t<decltype(*x)>>(share);
        for (int64_t i = 0; i < count; ++i)
          x[i] *= scale;
      },
      arena.at(state));
}

void Replicas::update(const State &parameter) const {
  auto stateOf = [&](const char *suffix) {
    std::string name = parameter.name + suffix;
    return arena.at(*std::find_if(manifest.state.begin(), manifest.state.end(), [&](const State &s) { return s.name == name; }));
  };
  withElements(
      parameter,
      [this](int64_t count, auto *x, auto *anchor, auto *momentum) {
        using Number = std::decay_t<decltype(*x)>;
        auto rate = static_cast<Number>(sync.outerRate), keeps = static_cast<Number>(sync.outerMomentum);
        bool nesterov = sync.outer == Sync::Outer::Nesterov;
        for (int64_t i = 0; i < count; ++i) {
          Number gradient = anchor[i] - x[i];
          momentum[i] = keeps * momentum[i] + gradient;
          anchor[i] -= rate * (nesterov ? gradient + keeps * momentum[i] : momentum[i]);
          x[i] = anchor[i];
        }
      },
      arena.at(parameter), stateOf(anchorSuffix), stateOf(outerMomentumSuffix));
}

Status Replicas::combine(std::vector<double> &values) {
  std::copy(values.begin(), values.end(), numbers.begin()); // whose address the reduction has
  size_t next = 0;
  for (size_t i = 0; i < values.size(); ++i)
    if (manifest.results[i].kind == "index")
      indices[next++] = values[i];
  if (Status status = run(results); !status.ok())
    return status;
  if (Status status = run(worst); !status.ok())
    return status;
  next = 0;
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = manifest.results[i].kind == "index" ? indices[next++] : numbers[i] * share;
  return {};
}
