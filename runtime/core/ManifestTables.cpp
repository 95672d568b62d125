#include "runtime/core/ManifestParser.h"

#include <algorithm>
#include <set>

using namespace divisi::runtime;

/// Parses what messages take: inside of a host, then between hosts.
void ManifestParser::parseLinks(const Json &json) {
  divisi::HostLinks::Link *link = &manifest.links.inside;
  for (const Json &item : json) {
    JsonReader reader(item, "a link of the manifest");
    if (!link)
      return keep(failure("the manifest has more than two links"));
    *link = {reader.number("latency"), reader.number("bandwidth")};
    if (!(link->latency >= 0 && link->latency < 1e6 && link->bandwidth > 0))
      reader.fail("has a latency or a bandwidth that cannot be");
    keep(reader.status());
    link = link == &manifest.links.inside ? &manifest.links.across : nullptr;
  }
}

void ManifestParser::parseMesh(const Json &json) {
  constexpr int64_t most = 1 << 16;
  std::vector<Axis> axes;
  int64_t size = 1;
  std::set<std::string> names;
  for (const Json &item : json) {
    JsonReader reader(item, "an axis of the manifest's mesh");
    Axis axis{reader.text("name"), reader.integer("size")};
    if (axis.name.empty() || !names.insert(axis.name).second)
      reader.fail("has no name of its own");
    else if (axis.size < 1 || axis.size > most || (size *= axis.size) > most)
      reader.fail("makes a mesh of a size that cannot be");
    keep(reader.status());
    axes.push_back(std::move(axis));
  }
  if (axes.size() > DIVISI_MAX_AXES)
    keep(failure("the manifest's mesh has more than ", DIVISI_MAX_AXES, " axes"));
  if (status.ok())
    manifest.mesh = Mesh(std::move(axes));
}

/// Parses the arena of each stage.
void ManifestParser::parseStages(JsonReader &top) {
  stageAxis = manifest.mesh.stageAxis();
  int64_t count = stageAxis ? manifest.mesh.axes()[static_cast<size_t>(*stageAxis)].size : 1;
  manifest.arenas.assign(static_cast<size_t>(count), arenaBytes);
  lacking.resize(static_cast<size_t>(count));
  std::vector<std::optional<int64_t>> turns(static_cast<size_t>(count));
  if (!top.has("stages"))
    return;
  const Json &stages = top.array("stages");
  if (stages.size() != manifest.arenas.size())
    return top.fail(concat("has ", stages.size(), " stages, but the mesh has ", count));
  for (size_t i = 0; i < stages.size(); ++i) {
    JsonReader reader(stages[i], concat("stage ", i, " of the manifest"));
    int64_t bytes = reader.integer("arena");
    if (bytes < 0 || uint64_t(bytes) > arenaBytes)
      reader.fail("has an arena of a size that cannot be");
    else
      manifest.arenas[i] = uint64_t(bytes);
    for (const Json &axis : reader.array("lacking"))
      if (isAxis(axis) && axis.get<int64_t>() != stageAxis &&
          !isLacking(static_cast<int64_t>(i), axis.get<int64_t>()))
        lacking[i].push_back(axis.get<int64_t>());
      else
        reader.fail("lacks an axis that the mesh does not have, or one twice");
    if (reader.has("turns")) {
      const Json &axis = stages[i]["turns"];
      if (isAxis(axis) && axis.get<int64_t>() != stageAxis && !isLacking(static_cast<int64_t>(i), axis.get<int64_t>()))
        turns[i] = axis.get<int64_t>();
      else
        reader.fail("takes turns along an axis that it does not have");
    }
    keep(reader.status());
  }
  if (!status.ok())
    return;
  manifest.mesh = Mesh(manifest.mesh.axes(), lacking);
  if (std::any_of(turns.begin(), turns.end(), [](const auto &axis) { return axis.has_value(); }))
    manifest.mesh.setTurns(std::move(turns));
}

bool ManifestParser::isAxis(const Json &axis) const {
  return axis.is_number_integer() && axis.get<int64_t>() >= 0 &&
         axis.get<int64_t>() < static_cast<int64_t>(manifest.mesh.axes().size());
}

bool ManifestParser::isLacking(int64_t stage, int64_t axis) const {
  for (size_t s = 0; s < lacking.size(); ++s)
    if ((stage < 0 || stage == static_cast<int64_t>(s)) &&
        std::find(lacking[s].begin(), lacking[s].end(), axis) != lacking[s].end())
      return true;
  return false;
}

/// Parses the tables of all stages: rows [task, microbatch, slot], [task, microbatch, slot, replica] where replicas
/// take microbatches in turn, [task, minibatch, slot, stride, slots, Row::When] if they are asynchronous.
void ManifestParser::parseTables(const std::string &function, const Json &stages) {
  auto fail = [&](const char *message) { keep(failure("the manifest's table of '", function, "' ", message)); };
  if (function != "train" && function != "evaluate")
    return fail("is of an unknown function");
  if (!stages.is_array() || stages.size() != manifest.arenas.size())
    return fail("is not one list for each stage");
  std::vector<Table> &tables = manifest.tables[function];
  for (const Json &rows : stages) {
    uint64_t arena = manifest.arenas[tables.size()];
    Table &table = tables.emplace_back();
    if (!rows.is_array())
      fail("is not one list for each stage");
    for (const Json &row : rows) {
      bool fits = row.is_array() && (row.size() == 3 || row.size() == 4 || (row.size() == 6 && function == "train")) &&
                  std::all_of(row.begin(), row.end(), [](const Json &number) { return number.is_number_integer(); });
      if (!fits)
        return fail("has a row that is not three or four integers, or six in 'train'");
      Row r{row[0].get<int64_t>(), row[1].get<int64_t>(), row[2].get<int64_t>()};
      bool six = row.size() == 6, turns = row.size() == 4;
      int64_t when = six ? row[5].get<int64_t>() : 0;
      if (six) {
        r.stride = row[3].get<int64_t>();
        r.slots = row[4].get<int64_t>();
        r.when = static_cast<Row::When>(when);
        r.replica = when == 0 && manifest.mesh.takesTurns() ? 0 : -1; // whose turn it is
      }
      if (turns)
        r.replica = row[3].get<int64_t>();
      if (six != manifest.asynchronous && function == "train" && (tables.size() > 1 || !table.empty()))
        return fail("has rows of both kinds");
      manifest.asynchronous |= six;
      if (six && microbatches < INT64_MAX)
        manifest.minibatches = microbatches;
      table.push_back(r);
      if (r.task < 0 || r.task >= static_cast<int64_t>(manifest.tasks.size()))
        fail("runs a task that there is not");
      else if (when < 0 || when > 2)
        fail("runs a task for minibatches that there are not");
      else if (six ? r.microbatch < -mostInFlight || r.microbatch > mostInFlight
                    : r.microbatch < 0 || r.microbatch >= microbatches)
        fail("runs a microbatch that there is not");
      else if (turns && !isReplica(r.replica, static_cast<int64_t>(tables.size()) - 1))
        fail("runs a task on a replica that there is not");
      else if (r.stride < 0 || r.stride % DIVISI_ALIGNMENT != 0 || r.slots < 1 || r.slots > 2 * mostInFlight + 1 ||
               uint64_t(r.stride) > arena / uint64_t(r.slots))
        fail("has slots that do not fit the arena");
      else if (r.slot < 0 || uint64_t(r.slot) > arena - uint64_t(r.stride * r.slots) ||
               r.slot % DIVISI_ALIGNMENT != 0)
        fail("has a slot outside of the arena, or one that is not aligned");
    }
  }
}

bool ManifestParser::isReplica(int64_t replica, int64_t stage) const {
  return manifest.mesh.takesTurns() && replica >= 0 && replica < manifest.mesh.replicasOf(stage);
}

void ManifestParser::parseCollective(const Json &json) {
  JsonReader reader(json, "a collective of the manifest");
  int64_t id = reader.integer("id");
  if (!manifest.collectives.emplace(id, reader.text("name")).second)
    reader.fail(concat("has the number ", id, " of another one"));
  std::vector<int64_t> axes;
  for (const Json &axis : reader.array("axes"))
    if (isAxis(axis) && std::find(axes.begin(), axes.end(), axis.get<int64_t>()) == axes.end())
      axes.push_back(axis.get<int64_t>());
    else
      reader.fail("is over axes that the mesh does not have");
  if (!axes.empty())
    manifest.groups.insert(std::move(axes));
  keep(reader.status());
}

void ManifestParser::parseMessage(const Json &json) {
  JsonReader reader(json, "a message of the manifest");
  int64_t from = reader.integer("from"), to = reader.integer("to"), bytes = reader.integer("bytes");
  auto isStage = [&](int64_t stage) { return stage >= 0 && stage < manifest.stages(); };
  if (!isStage(from) || !isStage(to) || bytes < 0)
    reader.fail("is between stages that there are not, or has a size that cannot be");
  keep(reader.status());
  manifest.messages[{from, to}] = bytes;
}

void ManifestParser::parseCall(const Json &json) {
  JsonReader reader(json, "a call of the manifest");
  Call call;
  call.kind = reader.text("kind");
  call.name = reader.text("name", "");
  call.key = reader.text("key", "");
  call.id = reader.integer("id", -1);
  call.expected = reader.number("expected_us", 0);
  auto train = std::find(manifest.tasks.begin(), manifest.tasks.end(), "train");
  call.task = reader.integer("task", train == manifest.tasks.end() ? 0 : train - manifest.tasks.begin());
  if (call.task < 0 || call.task >= static_cast<int64_t>(manifest.tasks.size()))
    reader.fail("belongs to a task that there is not");
  keep(reader.status());
  manifest.calls.push_back(std::move(call));
}
