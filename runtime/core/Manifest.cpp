#include "runtime/core/Manifest.h"
#include "runtime/core/Hash.h"

#include <algorithm>
#include <array>

using namespace divisi::runtime;

namespace {
template <typename Items, typename Match> auto findIn(const Items &items, Match match) -> decltype(items.data()) {
  auto it = std::find_if(items.begin(), items.end(), match);
  return it == items.end() ? nullptr : &*it;
}
} // namespace

const char *divisi::runtime::nameOf(Role role) {
  constexpr std::array names = {"parameter", "buffer", "constant", "moment", "step", "seed", "scaling"};
  return names[static_cast<size_t>(role)];
}

/// The rank of the first replica at the place inside a replica whose number this is.
static int64_t rankOfPlace(const Mesh &mesh, int64_t axis, int64_t place) {
  for (int64_t rank = 0;; ++rank)
    if (mesh.index(rank, axis) == 0 && place-- == 0)
      return rank;
}

int Manifest::serverRank(int64_t number, int64_t ofFirst) const {
  int64_t place = 0;
  for (int64_t other = 0; other < ofFirst; ++other)
    place += mesh.index(other, servers->axis) == 0;
  return static_cast<int>(mesh.size() + number * placesInReplica() + place);
}

bool Manifest::canLoseWorkers() const {
  if (servers ? !servers->asynchronous : !sync || sync->overlaps)
    return false;
  // A replica of several ranks would be lost with one of them, and the metrics of scores need all rows.
  return mesh.size() == mesh.axes()[static_cast<size_t>(shareAxis())].size && !scored().first;
}

Mesh Manifest::ownMesh() const {
  if (!server)
    return mesh;
  std::vector<Axis> axes = mesh.axes();
  axes[static_cast<size_t>(servers->axis)].size = 1;
  Mesh own(axes);
  own.startAt(mesh.size() + *server * placesInReplica());
  return own;
}

std::pair<const Prediction *, const Prediction *> Manifest::scored() const {
  auto find = [&](std::string_view name) -> const Prediction * {
    for (const Prediction &prediction : predictions)
      if (!prediction.metrics.empty() && prediction.name == name)
        return &prediction;
    return nullptr;
  };
  return {find("divisi.scores"), find("divisi.labels")};
}

void Manifest::localize(int64_t of) {
  processRank = of;
  server.reset();
  if (servers && of >= mesh.size()) {
    server = (of - mesh.size()) / placesInReplica();
    of = rankOfPlace(mesh, servers->axis, (of - mesh.size()) % placesInReplica());
  }
  rank = of;
  int64_t stage = stageOf(rank);
  auto choose = [&](Tensor &tensor) {
    tensor.here = tensor.stage < 0 || tensor.stage == stage;
    auto place = std::find_if(tensor.places.begin(), tensor.places.end(), [&](auto &t) { return t.stage == stage; });
    if (place == tensor.places.end())
      return;
    Tensor chosen = *place;
    chosen.places = std::move(tensor.places);
    tensor = std::move(chosen);
  };
  for (Input &input : inputs)
    choose(input);
  for (State &s : state)
    choose(s);
  for (Tensor &scalar : scalars)
    choose(scalar);
  for (Output &output : results)
    choose(output);
  for (Prediction &prediction : predictions)
    choose(prediction);

  if (mesh.takesTurns()) {
    int64_t own = turnOf(rank).first;
    for (auto &[function, stages] : tables)
      if (!asynchronous || function != "train") // whose rows are those of every minibatch
        std::erase_if(stages[static_cast<size_t>(stage)],
                      [&](const Row &row) { return row.replica >= 0 && row.replica != own; });
  }

  std::vector<Call> made;
  bool several = hasMicrobatches();
  if (const Table *rows = table("train"))
    for (const Row &row : *rows)
      for (const Call &call : calls)
        if (call.task == row.task)
          made.emplace_back(call).microbatch = several ? row.microbatch : -1;
  calls = std::move(made);
}

int64_t Manifest::stageOf(int64_t of) const {
  std::optional<int64_t> axis = mesh.stageAxis();
  return axis ? mesh.index(of, *axis) : 0;
}

std::pair<int64_t, int64_t> Manifest::turnOf(int64_t of) const {
  int64_t stage = stageOf(of);
  std::optional<int64_t> turns = mesh.turnsOf(stage);
  return {turns ? mesh.index(of, *turns) : 0, mesh.replicasOf(stage)};
}

int64_t Manifest::firstOf(int64_t stage) const { return mesh.inStage(0, stage); }

const Table *Manifest::table(const std::string &function) const {
  auto it = tables.find(function);
  return it == tables.end() ? nullptr : &it->second[static_cast<size_t>(stageOf(rank))];
}

bool Manifest::hasMicrobatches() const {
  auto all = tables.find("train");
  return all != tables.end() && std::any_of(all->second.begin(), all->second.end(), [](const Table &rows) {
           return std::any_of(rows.begin(), rows.end(), [](const Row &row) { return row.microbatch > 0; });
         });
}

int64_t Manifest::lagOf(int64_t stage) const {
  int64_t lag = 0;
  if (auto it = tables.find("train"); asynchronous && it != tables.end())
    for (const Row &row : it->second[static_cast<size_t>(stage)])
      lag = std::max(lag, -row.microbatch);
  return lag;
}

int64_t Manifest::longestLag() const {
  int64_t longest = 0;
  for (int64_t stage = 0; stage < stages(); ++stage)
    longest = std::max(longest, lagOf(stage));
  return longest;
}

Slice Manifest::sliceOf(const Tensor &tensor, int64_t of) const {
  Slice slice{tensor.splitShape(), tensor.shape, Shape(tensor.shape.size())};
  for (size_t d = 0; d < tensor.split.size(); ++d)
    slice.start[d] = mesh.index(of, tensor.split[d]) * tensor.shape[d];
  return slice;
}
const Tensor *Manifest::scalar(std::string_view name) const {
  return findIn(scalars, [&](const Tensor &t) { return t.name == name; });
}
const State *Manifest::stateOf(Role role) const {
  return findIn(state, [&](const State &s) { return s.role == role; });
}
const State *Manifest::averageOf(const State &parameter) const {
  return findIn(state, [&](const State &s) { return s.average && s.of == parameter.name; });
}

const Output *Manifest::result(std::string_view function, std::string_view kind) const {
  return findIn(results, [&](const Output &o) { return o.function == function && o.kind == kind; });
}

std::string Manifest::identity() const {
  std::string text;
  for (const State &s : state)
    text += concat(s.name, '\n', nameOf(s.role), ' ', nameOf(s.dtype), ' ', toString(storedShape(s, s.wholeShape())), '\n');
  return fnv1a64(text.data(), text.size());
}
