#include "runtime/main/Replicas.h"
#include "runtime/main/Tags.h"

#include <algorithm>
#include <cstring>

using namespace divisi::runtime;

namespace {
/// Small tensors travel together up to this size.
constexpr size_t bucketBytes = size_t(4) << 20;
/// The results of at most this number of steps, too.
constexpr size_t mostStepsAtOnce = 16;

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
  std::vector<const State *> noParameters;
  for (const State &state : manifest.state) {
    if (state.here && state.role == Role::Moment)
      places[state.name] = arena.at(state);
    if (!state.apart || !state.here || (state.role == Role::Moment && !sync.averageState && !state.average) || state.name.ends_with(snapshotSuffix))
      continue;
    averaged.push_back(&state);
    if (state.role != Role::Parameter)
      noParameters.push_back(&state);
  }
  sums = reductionsOf(averaged);
  if (sync.overlaps) {
    others = reductionsOf(noParameters);
    const std::vector<int64_t> axes = {sync.axis};
    mean.emplace(ranks, manifest.mesh.group(manifest.rank, axes), localTags::mean);
  }
  stepsAtOnce = meetSeldom() ? std::min<size_t>(static_cast<size_t>(sync.every), mostStepsAtOnce) : 1;
  numbers.resize(stepsAtOnce * manifest.results.size());
  if (!numbers.empty())
    results.push_back(reduction(DIVISI_F64, DIVISI_SUM, {{numbers.data(), static_cast<int64_t>(numbers.size())}}));
  indices.resize(stepsAtOnce * static_cast<size_t>(std::count_if(manifest.results.begin(), manifest.results.end(),
                                                                 [](const Output &o) { return o.kind == "index"; })));
  if (!indices.empty())
    worst.push_back(reduction(DIVISI_F64, DIVISI_MAX, {{indices.data(), static_cast<int64_t>(indices.size())}}));
}

std::vector<Replicas::Reduction> Replicas::reductionsOf(const std::vector<const State *> &states) {
  std::vector<Reduction> made;
  std::map<int64_t, std::vector<Part>> open; // by element type
  std::map<int64_t, size_t> bytes;
  auto close = [&](int64_t type) {
    if (!open[type].empty())
      made.push_back(reduction(type, DIVISI_SUM, open[type]));
    open[type].clear();
    bytes[type] = 0;
  };
  for (const State *state : states) {
    int64_t type = *abiType(state->dtype); // F32 or F64
    open[type].push_back({arena.at(*state), state->elements()});
    if ((bytes[type] += static_cast<size_t>(state->bytes)) >= bucketBytes)
      close(type);
  }
  for (int64_t type : {DIVISI_F32, DIVISI_F64})
    close(type);
  return made;
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
  for (const State *state : averaged)
    for (std::string_view suffix : {anchorSuffix, snapshotSuffix})
      if (auto place = places.find(concat(state->name, suffix)); state->role == Role::Parameter && place != places.end())
        std::memcpy(place->second, arena.at(*state), static_cast<size_t>(state->bytes));
}

template <typename Body> void Replicas::forEachParameter(BackgroundMean::Numbers &all, const Body &body) {
  float *single = all.singles.data();
  double *twice = all.doubles.data();
  for (const State *state : averaged) {
    if (state->role != Role::Parameter)
      continue;
    if (state->dtype == DataType::F64)
      body(*state, std::exchange(twice, twice + state->elements()));
    else
      body(*state, std::exchange(single, single + state->elements()));
  }
}

Status Replicas::beginMean() {
  BackgroundMean::Numbers mine;
  for (const State *state : averaged)
    if (state->role == Role::Parameter) {
      auto count = static_cast<size_t>(state->elements());
      state->dtype == DataType::F64 ? mine.doubles.resize(mine.doubles.size() + count) : mine.singles.resize(mine.singles.size() + count);
    }
  forEachParameter(mine, [&](const State &state, auto *numbers) {
    std::memcpy(numbers, stateOf(state, snapshotSuffix), static_cast<size_t>(state.bytes));
  });
  return mean->start(std::move(mine));
}

Status Replicas::endMean() {
  Result<BackgroundMean::Numbers> means = mean->finish();
  if (!means.ok())
    return means.status();
  forEachParameter(*means, [&](const State &state, auto *numbers) {
    using Number = std::decay_t<decltype(*numbers)>;
    Number *x = as<Number>(arena.at(state)), *before = as<Number>(stateOf(state, snapshotSuffix));
    const int64_t count = state.elements();
    for (int64_t i = 0; i < count; ++i) { // what was added since
      before[i] = x[i] - before[i];
      x[i] = numbers[i];
    }
    if (sync.outer != Sync::Outer::Mean)
      update(state);
    for (int64_t i = 0; i < count; ++i)
      x[i] += before[i];
  });
  return {};
}

Status Replicas::goOn(int64_t step) {
  if (!mean || step < sync.every)
    return {};
  // After the last average of a run, none is in progress: all replicas have what the outer step made of it.
  bool isApart = sync.outer == Sync::Outer::Mean;
  for (const State *state : averaged)
    if (state->role == Role::Parameter && !isApart)
      isApart = std::memcmp(arena.at(*state), stateOf(*state, anchorSuffix), static_cast<size_t>(state->bytes)) != 0;
  Result<int64_t> any = ranks.maximum(isApart);
  return any.ok() && *any ? beginMean() : any.status();
}

Status Replicas::meet(int64_t step, bool last) {
  if (sync.gossip && !last)
    return gossip(step);
  if (mean && mean->isStarted())
    if (Status status = endMean(); !status.ok())
      return status;
  auto keep = [&] {
    for (const State *state : averaged)
      if (mean && state->role == Role::Parameter)
        std::memcpy(stateOf(*state, snapshotSuffix), arena.at(*state), static_cast<size_t>(state->bytes));
  };
  if (mean && !last) {
    keep();
    if (Status status = run(others); !status.ok())
      return status;
    for (const State *state : averaged)
      if (state->role != Role::Parameter)
        scale(*state, share);
    return beginMean();
  }
  if (Status status = ranks.outlives() ? averageByFirst() : run(sums); !status.ok())
    return status;
  if (!ranks.outlives())
    for (const State *state : averaged)
      scale(*state, share);
  if (sync.outer != Sync::Outer::Mean)
    for (const State *state : averaged)
      if (state->role == Role::Parameter)
        update(*state);
  keep();
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
  const size_t most = ranks.outlives() ? SIZE_MAX : bucketBytes; // a neighbour is lost for all tensors or for none
  for (size_t begin = 0, end = 0; !neighbours.empty() && begin < averaged.size(); begin = end) {
    mine.clear();
    while (end < averaged.size() && (end == begin || mine.size() < most)) {
      const char *from = arena.at(*averaged[end]);
      mine.insert(mine.end(), from, from + averaged[end++]->bytes);
    }
    theirs.resize(mine.size());
    int64_t count = 1;
    for (const Neighbour &neighbour : neighbours) {
      if (Status status = ranks.exchange(neighbour.to, mine.data(), neighbour.from, theirs.data(), mine.size()); !status.ok())
        return status;
      if (ranks.isLost(neighbour.from))
        continue;
      add(begin, end, theirs.data());
      ++count;
    }
    for (size_t i = begin; i < end; ++i)
      scale(*averaged[i], 1 / static_cast<double>(count));
  }
  return {};
}

void Replicas::add(size_t begin, size_t end, const char *from) {
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

Status Replicas::averageByFirst() {
  auto pack = [&] {
    mine.clear();
    for (const State *state : averaged)
      mine.insert(mine.end(), arena.at(*state), arena.at(*state) + state->bytes);
  };
  pack();
  theirs.resize(mine.size());
  if (ranks.rank() != 0) {
    if (Status status = ranks.exchange(0, mine.data(), 0, theirs.data(), mine.size()); !status.ok())
      return status;
    const char *from = theirs.data();
    for (const State *state : averaged) {
      std::memcpy(arena.at(*state), from, static_cast<size_t>(state->bytes));
      from += state->bytes;
    }
    return {};
  }
  averagedOver = {0};
  for (int other = 1; other < ranks.size(); ++other) {
    if (Status status = ranks.receive(other, theirs.data(), theirs.size()); !status.ok())
      return status;
    if (ranks.isLost(other))
      continue;
    add(0, averaged.size(), theirs.data());
    averagedOver.push_back(other);
  }
  for (const State *state : averaged)
    scale(*state, 1 / static_cast<double>(averagedOver.size()));
  pack();
  for (int other = 1; other < ranks.size(); ++other)
    if (Status status = ranks.send(other, mine.data(), mine.size()); !status.ok())
      return status;
  return {};
}

Status Replicas::combineByFirst(std::vector<std::vector<double>> &steps) {
  std::vector<double> values;
  for (const std::vector<double> &step : steps)
    values.insert(values.end(), step.begin(), step.end());
  std::string bytes(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(double));
  Result<std::vector<std::string>> all = ranks.gather(bytes);
  if (!all.ok())
    return all.status();
  const size_t count = manifest.results.size();
  auto isIndex = [&](size_t i) { return manifest.results[i % count].kind == "index"; };
  std::vector<double> others(values.size());
  double came = 1;
  for (size_t rank = 1; ranks.rank() == 0 && rank < all->size(); ++rank) {
    const std::string &text = (*all)[rank];
    if (text.size() != bytes.size()) // of a rank that was lost
      continue;
    std::memcpy(others.data(), text.data(), text.size());
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = isIndex(i) ? std::max(values[i], others[i]) : values[i] + others[i];
    ++came;
  }
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = isIndex(i) ? values[i] : values[i] / came;
  bytes.assign(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(double));
  if (Status status = ranks.broadcast(bytes); !status.ok())
    return status;
  std::memcpy(values.data(), bytes.data(), std::min(bytes.size(), values.size() * sizeof(double)));
  for (size_t step = 0; step < steps.size(); ++step)
    std::copy_n(values.begin() + static_cast<int64_t>(step * count), count, steps[step].begin());
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
      arena.at(parameter), stateOf(parameter, anchorSuffix), stateOf(parameter, outerMomentumSuffix));
}

Status Replicas::combine(std::vector<std::vector<double>> &steps) {
  if (ranks.outlives())
    return combineByFirst(steps);
  const size_t count = manifest.results.size(), worstEach = indices.size() / stepsAtOnce;
  auto isIndex = [&](size_t i) { return manifest.results[i].kind == "index"; };
  for (size_t begin = 0; begin < steps.size(); begin += stepsAtOnce) {
    const size_t end = std::min(steps.size(), begin + stepsAtOnce);
    std::fill(numbers.begin(), numbers.end(), 0); // whose addresses the reductions have
    std::fill(indices.begin(), indices.end(), 0);
    for (size_t step = begin; step < end; ++step) {
      std::copy(steps[step].begin(), steps[step].end(), numbers.begin() + static_cast<int64_t>((step - begin) * count));
      for (size_t i = 0, next = (step - begin) * worstEach; i < count; ++i)
        if (isIndex(i))
          indices[next++] = steps[step][i];
    }
    if (Status status = run(results); !status.ok())
      return status;
    if (Status status = run(worst); !status.ok())
      return status;
    for (size_t step = begin; step < end; ++step)
      for (size_t i = 0, next = (step - begin) * worstEach; i < count; ++i)
        steps[step][i] = isIndex(i) ? indices[next++] : numbers[(step - begin) * count + i] * share;
  }
  return {};
}
