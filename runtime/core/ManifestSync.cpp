//===- ManifestSync.cpp - what replicas have of their own -----------------===//
#include "runtime/core/ManifestSync.h"

#include <algorithm>
#include <map>
#include <set>

using namespace divisi::runtime;

namespace {
bool isOf(const State &state, int64_t stage) {
  std::vector<const Tensor *> places = state.onStages();
  return std::any_of(places.begin(), places.end(),
                     [&](const Tensor *tensor) { return tensor->stage < 0 || tensor->stage == stage; });
}

/// Checks that each parameter of a stage has one server that renews it.
void checkRenewals(JsonReader &reader, const Manifest &manifest, const Servers &servers) {
  for (int64_t stage = 0; stage < manifest.stages(); ++stage) {
    std::map<std::string, int64_t> renewals;
    for (const Servers::Update &update : servers.updates[static_cast<size_t>(stage)])
      for (const std::string &name : update.renews)
        ++renewals[name];
    for (const State &state : manifest.state) {
      if (!isOf(state, stage))
        continue;
      auto found = renewals.extract(state.name);
      int64_t count = found ? found.mapped() : 0;
      if (state.role == Role::Parameter && state.trainable ? count != 1 : state.role != Role::Step && count > 1)
        reader.fail(concat("has ", count, " servers that renew '", state.name, "'"));
    }
    if (!renewals.empty())
      reader.fail(concat("has a server that renews '", renewals.begin()->first, "', which its stage does not have"));
  }
}

/// Parses the updates of dedicated servers.
Status parseServers(JsonReader &reader, Manifest &manifest, bool asynchronous) {
  Servers servers;
  servers.axis = reader.integer("axis");
  servers.asynchronous = asynchronous;
  if (asynchronous && reader.has("max_staleness"))
    servers.maxStaleness = reader.integer("max_staleness");
  const Mesh &mesh = manifest.mesh;
  if (servers.axis < 0 || servers.axis >= static_cast<int64_t>(mesh.axes().size()) ||
      servers.axis == mesh.stageAxis() || mesh.isNarrow() || mesh.takesTurns() || manifest.asynchronous ||
      servers.maxStaleness.value_or(1) < 1)
    reader.fail("is over an axis that has no replicas, or has a bound that is none");
  std::map<int64_t, size_t> stageOf; // of the tasks that training runs
  if (auto train = manifest.tables.find("train"); train != manifest.tables.end())
    for (size_t stage = 0; stage < train->second.size(); ++stage)
      for (const Row &row : train->second[stage])
        stageOf.emplace(row.task, stage);
  servers.updates.resize(static_cast<size_t>(manifest.stages()));
  for (const Json &item : reader.array("updates")) {
    JsonReader update(item, "an update of the manifest's servers");
    const int64_t task = update.integer("task");
    auto at = stageOf.find(task);
    if (at == stageOf.end()) {
      update.fail("is of two servers, or a task that training does not run");
      return update.status();
    }
    const size_t stage = at->second;
    stageOf.erase(at); // a task is of one server
    const uint64_t arena = manifest.arenas[stage];
    Servers::Update &made = servers.updates[stage].emplace_back();
    made.task = task;
    for (const Json &place : update.array("pushed")) {
      JsonReader tensor(place, "what is sent to the manifest's servers");
      Servers::Pushed pushed{tensor.integer("offset"), 0, tensor.dataType("dtype")};
      std::optional<int64_t> bytes = byteCount(tensor.shape("shape"), widthOf(pushed.dtype));
      std::string how = tensor.text("combine");
      const std::pair<const char *, Servers::Combine> ways[] = {{"copy", Servers::Combine::Copy}, {"sum", Servers::Combine::Sum},
                                                                {"max", Servers::Combine::Max}, {"min", Servers::Combine::Min}};
      auto way = std::find_if(std::begin(ways), std::end(ways), [&](const auto &w) { return how == w.first; });
      pushed.bytes = bytes.value_or(-1);
      if (pushed.offset < 0 || pushed.bytes < 0 || uint64_t(pushed.offset) > arena ||
          uint64_t(pushed.bytes) > arena - uint64_t(pushed.offset) || way == std::end(ways))
        tensor.fail("is no place in the arena, or is combined in no known way");
      else
        pushed.combine = way->second;
      if (pushed.combine != Servers::Combine::Copy && !abiType(pushed.dtype))
        tensor.fail("is combined, and of a type that no server adds up");
      if (!tensor.status().ok())
        return tensor.status();
      made.pushed.push_back(pushed);
    }
    for (const Json &name : update.array("renews"))
      if (name.is_string())
        made.renews.push_back(name.get<std::string>());
      else
        update.fail("renews a state without a name");
    if (!update.status().ok())
      return update.status();
  }
  for (const auto &ofStage : servers.updates)
    if (ofStage.empty() || ofStage.size() > 1024 || ofStage.size() != servers.updates.front().size())
      reader.fail("has no servers, more than 1024, or another number for another stage");
  if (reader.status().ok())
    checkRenewals(reader, manifest, servers);
  manifest.servers = std::move(servers);
  return reader.status();
}
} // namespace

Status divisi::runtime::parseSync(const Json &json, Manifest &manifest) {
  JsonReader reader(json, "the manifest's synchronisation");
  Sync sync;
  std::string mode = reader.text("mode");
  if (mode == "gossip") {
    const std::pair<const char *, Sync::Topology> topologies[] = {
        {"ring", Sync::Topology::Ring}, {"exponential", Sync::Topology::Exponential}, {"pairs", Sync::Topology::Pairs}};
    std::string wanted = reader.text("topology");
    for (auto [name, topology] : topologies)
      if (wanted == name)
        sync.gossip = topology;
    if (!sync.gossip)
      reader.fail("has an unknown topology");
    sync.asynchronous = reader.boolean("asynchronous", false);
    if (sync.asynchronous && sync.gossip != Sync::Topology::Ring)
      reader.fail("gossips asynchronously, but not on a ring");
  } else if (mode == "async-server" || (mode == "server" && reader.has("updates"))) {
    return parseServers(reader, manifest, mode == "async-server");
  } else if (mode == "driver" || mode == "server") {
    manifest.reducers = {reader.integer("axis"), mode == "server"};
    if (manifest.reducers->axis < 0 || manifest.reducers->axis >= static_cast<int64_t>(manifest.mesh.axes().size()))
      reader.fail("is over an axis that the mesh does not have");
    return reader.status();
  } else if (mode == "local") {
    sync.every = reader.integer("every");
  } else {
    reader.fail("has an unknown mode");
  }
  sync.axis = reader.integer("axis");
  sync.averageState = reader.boolean("average_state", false);
  sync.overlaps = reader.boolean("overlap", false);
  if (sync.overlaps && (sync.gossip || sync.averageState))
    reader.fail("overlaps averages of the optimizer's state, or gossip");
  if (reader.has("outer") && !sync.gossip) {
    JsonReader outer(reader.object("outer"), "the manifest's outer optimizer");
    std::string name = outer.text("optimizer");
    sync.outer = name == "nesterov" ? Sync::Outer::Nesterov : Sync::Outer::Sgd;
    sync.outerRate = outer.number("lr");
    sync.outerMomentum = outer.number("momentum");
    if (name != "sgd" && name != "nesterov")
      outer.fail("is unknown");
    if (!outer.status().ok())
      return outer.status();
  }
  const Mesh &mesh = manifest.mesh;
  if (sync.axis < 0 || sync.axis >= static_cast<int64_t>(mesh.axes().size()) || sync.axis == mesh.stageAxis() || mesh.isNarrow() ||
      manifest.asynchronous || mesh.axes()[static_cast<size_t>(sync.axis)].size < 2)
    reader.fail("is over an axis that has no replicas");
  if (sync.every < 1)
    reader.fail("has no number of steps");
  if (!reader.status().ok())
    return reader.status();
  for (State &state : manifest.state) {
    bool floats = state.dtype == DataType::F32 || state.dtype == DataType::F64;
    bool trains = (state.role == Role::Parameter && state.trainable) || state.role == Role::Moment;
    state.apart = trains || (state.role == Role::Buffer && floats);
    if (trains && !floats)
      return failure("the program's manifest has replicas with '", state.name, "' of another type than F32 and F64");
    for (const Tensor *tensor : state.onStages())
      for (const std::vector<int64_t> &axes : tensor->split)
        if (std::find(axes.begin(), axes.end(), sync.axis) != axes.end())
          return failure("the program's manifest splits '", state.name, "' over replicas that have each their own");
  }
  manifest.sync = sync;
  std::vector<std::string_view> suffixes;
  if (sync.outer != Sync::Outer::Mean)
    suffixes = {anchorSuffix, outerMomentumSuffix};
  if (sync.overlaps)
    suffixes.push_back(snapshotSuffix);
  for (const State &state : manifest.state)
    for (std::string_view suffix : suffixes)
      if (state.name.ends_with(suffix))
        return failure("the program's manifest has '", state.name, "', a name of the state of averages");
  manifest.addStateOfAverages(suffixes);
  return {};
}

void Manifest::addStateOfAverages(const std::vector<std::string_view> &suffixes) {
  auto place = [this](Tensor &tensor, int64_t stage) {
    uint64_t &end = arenas[static_cast<size_t>(stage)];
    end = (end + DIVISI_ALIGNMENT - 1) / DIVISI_ALIGNMENT * DIVISI_ALIGNMENT;
    tensor.offset = static_cast<int64_t>(end);
    end += static_cast<uint64_t>(tensor.bytes);
  };
  size_t count = state.size();
  for (size_t i = 0; i < count; ++i)
    for (std::string_view suffix : suffixes) {
      if (!state[i].apart || state[i].role != Role::Parameter)
        continue;
      State made = state[i];
      made.of = made.name;
      made.name += suffix;
      made.role = Role::Moment;
      made.apart = suffix == snapshotSuffix;
      made.trainingName.clear();
      made.isStored = false;
      made.init.reset();
      for (Tensor &tensor : made.places) {
        tensor.name = made.name;
        place(tensor, tensor.stage);
      }
      if (!made.places.empty()) {
        made.offset = made.places.front().offset;
      } else if (made.stage >= 0) {
        place(made, made.stage);
      } else { // in every arena at one place
        uint64_t largest = *std::max_element(arenas.begin(), arenas.end());
        arenas.assign(arenas.size(), largest);
        place(made, 0);
        arenas.assign(arenas.size(), arenas.front());
      }
      state.push_back(std::move(made));
    }
}

int64_t Manifest::replicasOf(const State &s) const {
  return sync && s.apart ? mesh.axes()[static_cast<size_t>(sync->axis)].size : 0;
}

Shape Manifest::storedShape(const State &s, Shape shape) const {
  if (int64_t replicas = replicasOf(s))
    shape.insert(shape.begin(), replicas);
  return shape;
}

Slice Manifest::storedSlice(const State &s, const Tensor &tensor, int64_t of) const {
  Slice slice = sliceOf(tensor, of);
  if (int64_t replicas = replicasOf(s)) {
    slice.global.insert(slice.global.begin(), replicas);
    slice.local.insert(slice.local.begin(), 1);
    slice.start.insert(slice.start.begin(), mesh.index(of, sync->axis));
  }
  return slice;
}
