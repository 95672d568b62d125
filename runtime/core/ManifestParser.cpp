//===- ManifestParser.cpp - a manifest that may be anything ---------------===//
#include "runtime/core/ManifestSync.h"

#include <algorithm>
#include <array>
#include <set>

using namespace divisi::runtime;

namespace {
std::optional<Role> parseRole(const std::string &name) {
  for (Role role : {Role::Parameter, Role::Buffer, Role::Constant, Role::Moment, Role::Step, Role::Seed, Role::Scaling})
    if (name == nameOf(role))
      return role;
  return std::nullopt;
}

/// Whether the tensors of two stages are the same tensor.
bool agree(const Tensor &a, const Tensor &b) { return a.dtype == b.dtype && a.wholeShape() == b.wholeShape(); }
bool agree(const Input &a, const Input &b) {
  return agree(static_cast<const Tensor &>(a), b) && a.label == b.label && a.microbatches == b.microbatches &&
         a.padding == b.padding && a.range == b.range;
}
bool agree(const State &a, const State &b) {
  return agree(static_cast<const Tensor &>(a), b) && a.role == b.role && a.of == b.of && a.average == b.average &&
         a.onnxName == b.onnxName;
}

/// Parses a manifest; the first error ends it.
class Parser {
public:
  Parser(Manifest &manifest, uint64_t arenaBytes) : manifest(manifest), arenaBytes(arenaBytes) {}

  Status parse(const Json &json) {
    JsonReader top(json, "the program's manifest");
    if (top.integer("abi") != DIVISI_ABI_VERSION)
      top.fail(concat("is not of version ", DIVISI_ABI_VERSION));
    manifest.model = top.text("model", "model");
    manifest.batch = top.integer("batch");
    if (manifest.batch < 1)
      top.fail("has a batch of less than one row");
    JsonReader weights(top.object("weights"), "the manifest's weights");
    manifest.weightsFile = weights.text("file", "");
    manifest.weightsHashes = weights.text("hashes", "");
    for (const auto &[part, text] : top.object("program").items())
      if (text.is_string())
        manifest.program[part] = text.get<std::string>();
      else
        top.fail("describes the program by something that is no text");
    JsonReader defaults(top.object("defaults"), "the manifest's defaults");
    manifest.learningRate = defaults.number("lr", manifest.learningRate);
    manifest.schedule = defaults.text("lr_schedule", manifest.schedule);
    manifest.warmupSteps = defaults.integer("warmup_steps", 0);
    manifest.stepSize = defaults.integer("step_size", 0);
    manifest.gamma = defaults.number("gamma", manifest.gamma);
    keep(weights.status());
    keep(defaults.status());
    parseMesh(top.array("mesh"));
    parseStages(top);
    for (const Json &item : top.array("inputs"))
      parseInput(item);
    for (const Json &item : top.array("state"))
      parseState(item);
    for (const Json &item : top.array("scalars"))
      manifest.scalars.push_back(parseTensor(item, "scalar", true));
    for (const Json &item : top.array("results"))
      parseOutput(item);
    for (const Json &item : top.array("predictions"))
      parsePrediction(item);
    for (const Json &item : top.array("collectives"))
      parseCollective(item);
    for (const Json &item : top.array("messages"))
      parseMessage(item);
    parseLinks(top.array("links"));
    for (const Json &item : top.array("tasks"))
      if (item.is_string())
        manifest.tasks.push_back(item.get<std::string>());
      else
        top.fail("has a task whose name is no text");
    keep(top.status());
    for (const auto &[function, stages] : top.object("tables").items())
      parseTables(function, stages);
    for (const Json &item : top.array("calls"))
      parseCall(item);
    manifest.expectedStep = top.number("expected_us", 0);
    keep(top.status());
    join("input", manifest.inputs);
    join("state", manifest.state);
    checkAverages();
    join("scalar", manifest.scalars);
    checkResults();
    for (int64_t stage = 0; status.ok() && stage < manifest.stages(); ++stage) // (offsets are in the arena then)
      checkOverlap(stage);
    if (status.ok() && top.has("sync"))
      keep(parseSync(top.object("sync"), manifest));
    return status;
  }

private:
  void keep(const Status &other) {
    if (status.ok() && !other.ok())
      status = other;
  }

  /// Parses what messages take: inside of a host, then between hosts.
  void parseLinks(const Json &json) {
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

  void parseMesh(const Json &json) {
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
  void parseStages(JsonReader &top) {
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

  bool isAxis(const Json &axis) const {
    return axis.is_number_integer() && axis.get<int64_t>() >= 0 &&
           axis.get<int64_t>() < static_cast<int64_t>(manifest.mesh.axes().size());
  }
  bool isLacking(int64_t stage, int64_t axis) const {
    for (size_t s = 0; s < lacking.size(); ++s)
      if ((stage < 0 || stage == static_cast<int64_t>(s)) &&
          std::find(lacking[s].begin(), lacking[s].end(), axis) != lacking[s].end())
        return true;
    return false;
  }

  /// Parses the tables of all stages: rows [task, microbatch, slot], [task, microbatch, slot, replica] where replicas
  /// take microbatches in turn, [task, minibatch, slot, stride, slots, Row::When] if they are asynchronous.
  void parseTables(const std::string &function, const Json &stages) {
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

  bool isReplica(int64_t replica, int64_t stage) const {
    return manifest.mesh.takesTurns() && replica >= 0 && replica < manifest.mesh.replicasOf(stage);
  }

  void parseCollective(const Json &json) {
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

  void parseMessage(const Json &json) {
    JsonReader reader(json, "a message of the manifest");
    int64_t from = reader.integer("from"), to = reader.integer("to"), bytes = reader.integer("bytes");
    auto isStage = [&](int64_t stage) { return stage >= 0 && stage < manifest.stages(); };
    if (!isStage(from) || !isStage(to) || bytes < 0)
      reader.fail("is between stages that there are not, or has a size that cannot be");
    keep(reader.status());
    manifest.messages[{from, to}] = bytes;
  }

  void parseCall(const Json &json) {
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

  /// Parses the sharding of a tensor.
  void parseSplit(const Json &json, Tensor &tensor, const char *what) {
    JsonReader reader(json, concat("the manifest's ", what, " '", tensor.name, "'"));
    if (!reader.has("split") && !reader.has("global_shape"))
      return;
    tensor.global = reader.shape("global_shape");
    std::set<int64_t> used;
    for (const Json &dimension : reader.array("split")) {
      std::vector<int64_t> axes;
      if (!dimension.is_array())
        reader.fail("has a split that is not a list for each dimension");
      for (const Json &axis : dimension) {
        if (!isAxis(axis) || !used.insert(axis.get<int64_t>()).second)
          reader.fail("is split over an axis that the mesh does not have, or twice over one");
        else if (tensor.stage >= 0 && axis.get<int64_t>() == stageAxis)
          reader.fail("is of one stage and split over stages");
        else if (isLacking(tensor.stage, axis.get<int64_t>()))
          reader.fail("is split over an axis that its stage lacks");
        else
          axes.push_back(axis.get<int64_t>());
      }
      tensor.split.push_back(std::move(axes));
    }
    Shape padded = reader.has("padded_shape") ? reader.shape("padded_shape") : tensor.global;
    bool fits = padded.size() == tensor.shape.size() && tensor.split.size() == tensor.shape.size() &&
                tensor.global.size() == tensor.shape.size() && byteCount(tensor.global, widthOf(tensor.dtype));
    for (size_t d = 0; fits && d < tensor.shape.size(); ++d) {
      int64_t pieces = manifest.mesh.count(tensor.split[d]);
      fits = padded[d] % pieces == 0 && padded[d] / pieces == tensor.shape[d] && tensor.global[d] <= padded[d];
    }
    if (!fits)
      reader.fail(concat("has pieces ", toString(tensor.shape), " that do not make up ", toString(tensor.global)));
    keep(reader.status());
    if (!status.ok() || (used.empty() && padded == tensor.global))
      tensor.split.clear();
  }

  Tensor parseTensor(const Json &json, const char *what, bool single) {
    JsonReader reader(json, concat("the manifest's ", what));
    Tensor tensor;
    tensor.name = reader.text("name", "");
    reader = JsonReader(json, concat("the manifest's ", what, " '", tensor.name, "'"));
    tensor.dtype = reader.dataType("dtype");
    if (!single || reader.has("shape"))
      tensor.shape = reader.shape("shape");
    int64_t width = widthOf(tensor.dtype);
    std::optional<int64_t> bytes = byteCount(tensor.shape, width);
    if (!bytes || (reader.has("bytes") && reader.integer("bytes") != *bytes))
      reader.fail(concat("has another size than its shape ", toString(tensor.shape)));
    tensor.bytes = bytes.value_or(0);
    if (single && tensor.bytes != width)
      reader.fail("is not one number");
    if (reader.has("stage")) {
      tensor.stage = reader.integer("stage");
      if (tensor.stage < 0 || tensor.stage >= manifest.stages()) {
        reader.fail("is of a stage that there is not");
        tensor.stage = -1;
      }
    }
    uint64_t arena = tensor.stage >= 0 ? manifest.arenas[static_cast<size_t>(tensor.stage)]
                                       : *std::min_element(manifest.arenas.begin(), manifest.arenas.end());
    tensor.offset = reader.integer("offset");
    if (tensor.offset < 0 || uint64_t(tensor.offset) > arena || uint64_t(tensor.bytes) > arena - tensor.offset)
      reader.fail("lies outside of the arena");
    else if (tensor.offset % width != 0)
      reader.fail("is not aligned");
    keep(reader.status());
    return tensor;
  }

  void parseInput(const Json &json) {
    Input input;
    static_cast<Tensor &>(input) = parseTensor(json, "input", false);
    parseSplit(json, input, "input");
    JsonReader reader(json, concat("the manifest's input '", input.name, "'"));
    input.label = reader.boolean("label", false);
    if (reader.has("microbatches")) {
      input.microbatches = reader.integer("microbatches");
      const Shape whole = input.splitShape();
      bool fits = whole.size() >= 2 && input.microbatches >= 1 && whole[0] == input.microbatches && whole[1] >= 1;
      std::optional<int64_t> rows = fits ? byteCount({whole[0], whole[1]}, 1) : std::nullopt;
      if (!rows || *rows % std::max<int64_t>(manifest.batch, 1) != 0) {
        reader.fail(concat("has the shape ", toString(whole), ", which is not that of microbatches"));
      } else {
        input.inFiles = {*rows};
        input.inFiles.insert(input.inFiles.end(), whole.begin() + 2, whole.end());
        microbatches = std::min(microbatches, input.microbatches);
      }
    }
    if (reader.has("padding"))
      input.padding = reader.integer("padding");
    input.range = parseRange(reader);
    keep(reader.status());
    manifest.inputs.push_back(std::move(input));
  }

  static std::optional<std::pair<int64_t, int64_t>> parseRange(JsonReader &reader) {
    if (!reader.has("range"))
      return std::nullopt;
    const Json &range = reader.array("range");
    if (range.size() == 2 && range[0].is_number_integer() && range[1].is_number_integer())
      return std::pair(range[0].get<int64_t>(), range[1].get<int64_t>());
    reader.fail("has a range that is not two integers");
    return std::nullopt;
  }

  void parseState(const Json &json) {
    State state;
    static_cast<Tensor &>(state) = parseTensor(json, "state", false);
    parseSplit(json, state, "state");
    JsonReader reader(json, concat("the manifest's state '", state.name, "'"));
    std::optional<Role> role = parseRole(reader.text("role"));
    if (!role)
      reader.fail("has an unknown role");
    state.role = role.value_or(Role::Parameter);
    if ((state.role == Role::Step || state.role == Role::Seed) &&
        (state.elements() != 1 || isFloat(state.dtype) || state.isSplit()))
      reader.fail("is not one integer");
    state.trainable = reader.boolean("trainable", true);
    if (reader.has("model_shape")) {
      state.inFiles = reader.shape("model_shape");
      if (state.inFiles.empty() || byteCount(state.inFiles, widthOf(state.dtype)) != state.wholeBytes())
        reader.fail(concat("has another number of elements than ", toString(state.inFiles)));
    }
    state.of = reader.text("of", "");
    state.average = reader.boolean("average", false);
    if (state.average && (state.role != Role::Moment || state.of.empty()))
      reader.fail("is an average of no parameter");
    state.onnxName = reader.text("onnx_name", state.name);
    if (reader.has("init"))
      parseInit(reader.object("init"), state);
    keep(reader.status());
    manifest.state.push_back(std::move(state));
  }

  void parseInit(const Json &json, State &state) {
    JsonReader reader(json, concat("the initial value of '", state.name, "'"));
    std::string kind = reader.text("kind");
    Initial init;
    if (kind == "uniform")
      init = {Initial::Kind::Uniform, reader.number("scale")};
    else if (kind == "normal")
      init = {Initial::Kind::Normal, reader.number("scale")};
    else if (kind == "constant")
      init = {Initial::Kind::Constant, reader.number("scale")};
    else
      reader.fail(concat("has the unknown kind '", kind, "'"));
    state.init = init;
    keep(reader.status());
  }

  void parseOutput(const Json &json) {
    Output output;
    static_cast<Tensor &>(output) = parseTensor(json, "result", true);
    JsonReader reader(json, "a result of the manifest");
    output.function = reader.text("function");
    output.kind = reader.text("kind");
    output.when = static_cast<uint32_t>(reader.integer("when", 0));
    output.range = parseRange(reader);
    output.shares = reader.integer("shares", 0);
    if (output.kind == "grad_sq_small" && output.shares < 2)
      reader.fail("compares shares of the batch, but has fewer than two");
    constexpr int64_t most = int64_t(1) << 51; // beyond it, the encoding of distances of indices is not exact
    if (output.kind == "index" && (!output.range || output.range->first < -most || output.range->first > 0 ||
                                   output.range->second < 0 || output.range->second > most))
      reader.fail("checks an index, but has no range around zero");
    if (output.function != "train" && output.function != "evaluate")
      reader.fail(concat("belongs to the unknown function '", output.function, "'"));
    keep(reader.status());
    manifest.results.push_back(std::move(output));
  }

  void parsePrediction(const Json &json) {
    Prediction prediction;
    static_cast<Tensor &>(prediction) = parseTensor(json, "prediction", false);
    JsonReader reader(json, concat("the manifest's prediction '", prediction.name, "'"));
    if (prediction.name.empty() || std::any_of(manifest.predictions.begin(), manifest.predictions.end(),
                                               [&](auto &other) { return other.name == prediction.name; }))
      reader.fail("has no name of its own");
    else if (prediction.shape.empty() || prediction.shape[0] < 1 ||
             prediction.shape[0] % std::max<int64_t>(manifest.batch, 1) != 0)
      reader.fail(concat("has the shape ", toString(prediction.shape), ", which has no rows for each of the batch"));
    for (auto [key, names] : {std::pair("inputs", &prediction.inputs), {"metrics", &prediction.metrics}})
      for (const Json &name : reader.has(key) ? reader.array(key) : Json::array())
        if (name.is_string())
          names->push_back(name.get<std::string>());
        else
          reader.fail(concat("has a name that is no text among its ", key));
    if (!prediction.metrics.empty() && (prediction.dtype != DataType::F32 || prediction.shape.size() > 2))
      reader.fail("is for metrics, but no list of numbers or rows of F32");
    keep(reader.status());
    manifest.predictions.push_back(std::move(prediction));
  }

  /// Joins the tensors of one name on several stages into one.
  template <typename T> void join(const char *what, std::vector<T> &items) {
    std::map<std::string, size_t> known;
    std::vector<T> joined;
    for (T &item : items) {
      auto [it, isNew] = known.emplace(item.name, joined.size());
      T &first = isNew ? joined.emplace_back(item) : joined[it->second];
      bool again = !isNew && (first.stage < 0 || item.stage < 0);
      for (const Tensor &place : first.places)
        again |= place.stage == item.stage;
      if (item.name.empty() || again)
        keep(failure("the program's manifest has two times the ", what, " '", item.name, "', or one without a name"));
      else if (!agree(first, item))
        keep(failure("the program's manifest has the ", what, " '", item.name,
                     "' on two stages that do not agree on it"));
      else if (item.stage >= 0)
        first.places.push_back(item);
    }
    for (T &item : joined)
      if (!item.places.empty()) {
        std::vector<Tensor> places = std::move(item.places);
        std::sort(places.begin(), places.end(), [](const Tensor &a, const Tensor &b) { return a.stage < b.stage; });
        static_cast<Tensor &>(item) = places.front();
        item.places = std::move(places);
      }
    items = std::move(joined);
  }

  /// Averages are like their parameters.
  void checkAverages() {
    for (const State &state : manifest.state)
      if (state.average &&
          std::none_of(manifest.state.begin(), manifest.state.end(), [&](const State &parameter) {
            return parameter.name == state.of && parameter.role == Role::Parameter && parameter.dtype == state.dtype &&
                   parameter.wholeShape() == state.wholeShape();
          }))
        keep(failure("the program's manifest has the average '", state.name, "', which is not like its parameter"));
  }

  void checkResults() {
    std::set<std::array<std::string, 3>> known;
    for (const Output &output : manifest.results)
      if (!known.insert({output.function, output.kind, output.name}).second)
        keep(failure("the program's manifest has two times the result '", output.kind, "' of '", output.function, "'"));
  }

  /// Checks that tensors in the arena of a stage do not overlap.
  void checkOverlap(int64_t stage) {
    std::vector<const Tensor *> all;
    auto add = [&](const Tensor &tensor) {
      if (tensor.places.empty())
        all.push_back(&tensor);
      for (const Tensor &place : tensor.places)
        if (place.stage == stage)
          all.push_back(&place);
    };
    for (const Input &input : manifest.inputs)
      add(input);
    for (const State &state : manifest.state)
      add(state);
    for (const Tensor &scalar : manifest.scalars)
      add(scalar);
    std::erase_if(all, [](const Tensor *t) { return t->bytes == 0; });
    std::sort(all.begin(), all.end(), [](auto *a, auto *b) { return a->offset < b->offset; });
    for (size_t i = 1; i < all.size(); ++i)
      if (all[i - 1]->offset + all[i - 1]->bytes > all[i]->offset)
        keep(failure("the program's manifest puts '", all[i - 1]->name, "' and '", all[i]->name, "' in one place"));
  }

  Manifest &manifest;
  uint64_t arenaBytes;
  std::optional<int64_t> stageAxis;
  std::vector<std::vector<int64_t>> lacking; // axes, by stage
  /// The largest distance of a minibatch from the one that comes with a step.
  static constexpr int64_t mostInFlight = 4096;
  int64_t microbatches = INT64_MAX; ///< common to all inputs
  Status status;
};
} // namespace

Result<Manifest> divisi::runtime::parseManifest(std::string_view json, uint64_t arenaBytes) {
  Result<Json> parsed = parseJson(json, "the program's manifest");
  if (!parsed.ok())
    return parsed.status();
  Manifest manifest;
  if (Status status = Parser(manifest, arenaBytes).parse(*parsed); !status.ok())
    return status;
  return manifest;
}

Result<Manifest> divisi::runtime::parseManifest(const DivisiProgram &program) {
  if (program.abi_version != DIVISI_ABI_VERSION)
    return failure("the program has version ", program.abi_version, " of the runtime interface, but version ",
                   DIVISI_ABI_VERSION, " is linked");
  Result<Manifest> manifest = parseManifest({program.manifest, program.manifest_bytes}, program.arena_bytes);
  if (manifest.ok() && manifest->tasks.size() != program.task_count)
    return failure("the program has ", program.task_count, " tasks, but its manifest names ", manifest->tasks.size());
  return manifest;
}
