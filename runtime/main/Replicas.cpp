#include "runtime/main/Replicas.h"

#include <algorithm>
#include <cstring>

using namespace divisi::runtime;

namespace {
/// Small tensors travel together up to this size.
constexpr size_t bucketBytes = size_t(4) << 20;

template <typename Number> Number *as(char *place) { return reinterpret_cast<Number *>(place); }
template <typename Number> const char *as(const char *place) { return place; } // may not be aligned

/// Calls body(number of elements, pointers to those of each tensor) with the element type.
template <typename Body, typename... Places> void withElements(const Tensor &tensor, const Body &body, Places... places) {
  if (tensor.dtype == DataType::F64)
    body(tensor.elements(), as<double>(places)...);
  else
    body(tensor.elements(), as<float>(places)...);
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
    if (!state.apart || !state.here || (state.role == Role::Moment && !sync.averageState && !state.average))
      continue;
    averaged.push_back(&state);
    int64_t type = *abiType(state.dtype); // F32 or F64
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

Status Replicas::meet(int64_t step, bool last) {
  if (sync.gossip && !last)
    return gossip(step);
  if (Status status = run(sums); !status.ok())
    return status;
  for (const State *state : averaged)
    scale(*state, share);
  if (sync.outer != Sync::Outer::Mean)
    for (const State *state : averaged)
      if (state->role == Role::Parameter)
        update(*state);
  return {};
}

std::vector<Replicas::Neighbour> Replicas::neighboursIn(int64_t step) const {
  const std::vector<int64_t> axes = {sync.axis};
  std::vector<int> all = manifest.mesh.group(manifest.rank, axes);
  auto count = static_cast<int64_t>(all.size()), me = manifest.mesh.index(manifest.rank, axes);
  auto rankAt = [&](int64_t index) { return all[static_cast<size_t>((index + count) % count)]; };
  if (*sync.gossip == Sync::Topology::Exponential) {
    int64_t rounds = 1;
    while (int64_t(1) << rounds < count)
      ++rounds;
    int64_t distance = int64_t(1) << (step - 1) % rounds;
    return {{rankAt(me + distance), rankAt(me - distance)}};
  }
  if (*sync.gossip == Sync::Topology::Pairs) {
    int64_t shift = (step - 1) % 2, at = (me - shift + count) % count; // the ring is cut into pairs from `shift` on
    if (count % 2 != 0 && at == count - 1)
      return {};
    int partner = rankAt(at % 2 == 0 ? me + 1 : me - 1);
    return {{partner, partner}};
  }
  std::vector<Neighbour> both = {{rankAt(me + 1), rankAt(me - 1)}, {rankAt(me - 1), rankAt(me + 1)}};
  both.resize(count == 2 ? 1 : 2); // the two are one
  return both;
}

Status Replicas::gossip(int64_t step) {
  std::vector<Neighbour> neighbours = neighboursIn(step);
  double weight = 1 / static_cast<double>(neighbours.size() + 1);
  for (size_t begin = 0, end = 0; !neighbours.empty() && begin < averaged.size(); begin = end) {
    mine.clear();
    while (end < averaged.size() && (end == begin || mine.size() < bucketBytes)) {
      const char *from = arena.at(*averaged[end]);
      mine.insert(mine.end(), from, from + averaged[end++]->bytes);
    }
    theirs.resize(mine.size());
    for (const Neighbour &neighbour : neighbours) {
      if (Status status = ranks.exchange(neighbour.to, mine.data(), neighbour.from, theirs.data(), mine.size()); !status.ok())
        return status;
      const char *from = theirs.data();
      for (size_t i = begin; i < end; from += averaged[i++]->bytes)
        withElements(
            *averaged[i],
            [](int64_t count, auto *x, const char *bytes) {
              using Number = std::decay_t<decltype(*x)>;
              for (int64_t e = 0; e < count; ++e) {
                Number other;
                std::memcpy(&other, bytes + e * static_cast<int64_t>(sizeof(Number)), sizeof(Number));
                x[e] += other;
              }
            },
            arena.at(*averaged[i]), from);
    }
    for (size_t i = begin; i < end; ++i)
      scale(*averaged[i], weight);
  }
  return {};
}

void Replicas::scale(const State &state, double by) const {
  withElements(
      state,
      [by](int64_t count, auto *x) {
        auto factor = static_cast<std::decay_t<decltype(*x)>>(by);
        for (int64_t i = 0; i < count; ++i)
          x[i] *= factor;
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
