#include "runtime/core/ManifestParser.h"

#include <algorithm>
#include <set>

using namespace divisi::runtime;

static std::optional<Role> parseRole(const std::string &name) {
  for (Role role : {Role::Parameter, Role::Buffer, Role::Constant, Role::Moment, Role::Step, Role::Seed, Role::Scaling})
    if (name == nameOf(role))
      return role;
  return std::nullopt;
}

/// Parses the sharding of a tensor.
void ManifestParser::parseSplit(const Json &json, Tensor &tensor, const char *what) {
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

Tensor ManifestParser::parseTensor(const Json &json, const char *what, bool single) {
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

void ManifestParser::parseInput(const Json &json) {
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

std::optional<std::pair<int64_t, int64_t>> ManifestParser::parseRange(JsonReader &reader) {
  if (!reader.has("range"))
    return std::nullopt;
  const Json &range = reader.array("range");
  if (range.size() == 2 && range[0].is_number_integer() && range[1].is_number_integer())
    return std::pair(range[0].get<int64_t>(), range[1].get<int64_t>());
  reader.fail("has a range that is not two integers");
  return std::nullopt;
}

void ManifestParser::parseState(const Json &json) {
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
  state.trainingName = reader.text("training_info", "");
  state.isStored = reader.boolean("stored", false);
  if (reader.has("init"))
    parseInit(reader.object("init"), state);
  keep(reader.status());
  manifest.state.push_back(std::move(state));
}

void ManifestParser::parseInit(const Json &json, State &state) {
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
  init.mean = reader.number("mean", 0);
  state.init = init;
  keep(reader.status());
}

void ManifestParser::parseOutput(const Json &json) {
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

void ManifestParser::parsePrediction(const Json &json) {
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
