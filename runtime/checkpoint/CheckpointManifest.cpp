#include "runtime/checkpoint/CheckpointManifest.h"
#include "runtime/checkpoint/AtomicFile.h"
#include "runtime/checkpoint/Shards.h"
#include "runtime/checkpoint/Weights.h"
#include "runtime/core/Hash.h"
#include "runtime/core/Json.h"
#include "runtime/core/MappedFile.h"

#include <algorithm>
#include <cmath>
#include <set>

using namespace divisi::runtime;

namespace {
constexpr int version = 2;

/// A hash of all members but "hash". Keys are sorted, so that equal contents have equal text.
std::string hashOf(Json json) {
  json.erase("hash");
  std::string text = dumpJson(json);
  return fnv1a64(text.data(), text.size());
}

std::map<std::string, std::string> texts(JsonReader &reader, const char *key) {
  std::map<std::string, std::string> found;
  for (const auto &[name, value] : reader.object(key).items())
    if (value.is_string())
      found[name] = value.get<std::string>();
    else
      reader.fail(concat("has a '", key, "' with something that is no text"));
  return found;
}

/// By input; in older checkpoints one list for all of them, whose name is then empty.
void readClasses(const Json &json, JsonReader &reader, ClassNames &classes) {
  if (!reader.has("classes"))
    return;
  const Json &found = json.at("classes");
  const Json byInput = found.is_object() ? found : Json{{"", found}};
  for (const auto &[input, names] : byInput.items())
    for (const Json &name : names.is_array() ? names : Json::array({0})) {
      if (name.is_string())
        classes[input].push_back(name.get<std::string>());
      else
        reader.fail("has classes whose names are no texts");
    }
}

/// The sums of the unfinished epoch, the history of evaluations and the averages of the noise scale; checkpoints of older
/// programs have none.
void readHistory(JsonReader &manifest, TrainingPoint &point) {
  JsonReader sums(manifest.object("epoch_sums"), "epoch_sums"), history(manifest.object("evaluations"), "evaluations"),
      noise(manifest.object("noise_averages"), "noise_averages");
  point.epoch = {sums.number("loss", 0), sums.number("steps", 0), sums.number("correct", 0), sums.number("count", 0)};
  point.evaluations = {history.integer("step", -1), history.integer("best_step", -1), history.number("best_loss", 0),
                       history.integer("without_improvement", 0)};
  point.noise = {noise.number("gradient", 0), noise.number("variance", 0)};
  for (const JsonReader *reader : {&sums, &history, &noise})
    if (!reader->status().ok())
      manifest.fail(concat("has no sound sums: ", reader->status().message()));
}

void readPoint(const Json &json, JsonReader &reader, TrainingPoint &point) {
  point.step = reader.integer("step");
  point.cursor = {reader.integer("epoch"), reader.integer("batch")};
  // The seed is an unsigned 64-bit integer.
  if (!reader.has("seed") || !json.at("seed").is_number_unsigned())
    reader.fail("has no seed");
  else
    point.seed = json.at("seed").get<uint64_t>();
  point.shuffle = reader.boolean("shuffle", true);
  point.samples = reader.integer("samples");
  point.position = reader.text("position", "");
  point.updatesBefore = reader.integer("updates_before", 0);
  point.flags = texts(reader, "flags");
  readClasses(json, reader, point.classes);
  if (reader.has("eval_loss"))
    point.evalLoss = reader.number("eval_loss");
  readHistory(reader, point);
  if (point.step < 0 || point.cursor.epoch < 0 || point.cursor.batch < 0 || point.samples < 0 || point.updatesBefore < 0)
    reader.fail("has negative counts");
}

Json describe(const TrainingPoint &point) {
  Json json = {{"step", point.step},  {"epoch", point.cursor.epoch}, {"batch", point.cursor.batch},
               {"seed", point.seed},  {"shuffle", point.shuffle},    {"samples", point.samples},
               {"flags", point.flags}};
  if (point.evalLoss && std::isfinite(*point.evalLoss)) // other numbers are not valid JSON, and are never the best
    json["eval_loss"] = *point.evalLoss;
  if (point.updatesBefore > 0)
    json["updates_before"] = point.updatesBefore;
  if (!point.position.empty())
    json["position"] = point.position;
  if (!point.classes.empty())
    json["classes"] = point.classes;
  if (point.epoch.lossWeight > 0)
    json["epoch_sums"] = {{"loss", point.epoch.lossSum},
                          {"steps", point.epoch.lossWeight},
                          {"correct", point.epoch.correctSum},
                          {"count", point.epoch.countSum}};
  if (const EvaluationHistory &history = point.evaluations; history.step >= 0) {
    json["evaluations"] = {{"step", history.step}, {"without_improvement", history.withoutImprovement}};
    if (history.bestStep >= 0)
      json["evaluations"].update({{"best_step", history.bestStep}, {"best_loss", history.bestLoss}});
  }
  if (point.noise.gradient != 0)
    json["noise_averages"] = {{"gradient", point.noise.gradient}, {"variance", point.noise.variance}};
  return json;
}

CheckpointFile readFile(const Json &json, JsonReader &manifest) {
  JsonReader reader(json, "a file of the checkpoint");
  CheckpointFile file{reader.text("name"), reader.integer("bytes"), reader.text("hashes")};
  if (!reader.status().ok() || file.bytes < 0 || file.name.empty() || file.name.find('/') != std::string::npos)
    manifest.fail("has a list of files that is not one");
  return file;
}

/// Whether a shard is inside of the tensor.
bool liesWithin(const CheckpointTensor::Piece &piece, const CheckpointTensor &tensor) {
  bool fits = piece.start.size() == tensor.pieced.size() && piece.shape.size() == tensor.pieced.size();
  for (size_t d = 0; fits && d < tensor.pieced.size(); ++d)
    fits = piece.shape[d] <= tensor.pieced[d] && piece.start[d] <= tensor.pieced[d] - piece.shape[d];
  return fits;
}

/// Reads a tensor. Its shards have as many elements in all as the tensor, and fit into their files, so that reading the
/// whole tensor needs no more memory than the files have bytes.
CheckpointTensor readTensor(const Json &json, const std::vector<CheckpointFile> &files, JsonReader &manifest) {
  JsonReader reader(json, "a tensor of the checkpoint");
  CheckpointTensor tensor;
  tensor.name = reader.text("name");
  tensor.role = reader.text("role");
  tensor.replicas = reader.integer("replicas", 0);
  tensor.dtype = reader.dataType("dtype");
  tensor.shape = reader.shape("shape");
  tensor.pieced = reader.has("pieced") ? reader.shape("pieced") : tensor.shape;
  int64_t width = widthOf(tensor.dtype), next = 0;
  std::optional<int64_t> missing = byteCount(tensor.shape, width);
  bool fits = missing && missing == byteCount(tensor.pieced, width);
  if (tensor.replicas != 0)
    fits = fits && isFloat(tensor.dtype) && !tensor.shape.empty() && tensor.shape[0] == tensor.replicas;
  for (const Json &item : reader.array("pieces")) {
    JsonReader part(item, "a piece of a tensor of the checkpoint");
    int64_t file = part.integer("file");
    CheckpointTensor::Piece piece{static_cast<size_t>(file), Shape(tensor.pieced.size()), tensor.pieced};
    if (part.has("start"))
      piece.start = part.shape("start"), piece.shape = part.shape("shape");
    // A file contains one shard of a tensor.
    fits = fits && part.status().ok() && file >= next && piece.file < files.size() && liesWithin(piece, tensor);
    if (!fits)
      break;
    next = file + 1;
    int64_t bytes = byteCount(piece.shape, width).value_or(INT64_MAX);
    fits = bytes <= *missing && bytes <= files[piece.file].bytes;
    *missing -= fits ? bytes : 0;
    tensor.pieces.push_back(std::move(piece));
  }
  if (!reader.status().ok() || !fits || *missing != 0)
    manifest.fail("has a list of tensors that is not one");
  return tensor;
}

Json describe(const CheckpointTensor &tensor) {
  Json json = {{"name", tensor.name},
               {"role", tensor.role},
               {"dtype", nameOf(tensor.dtype)},
               {"shape", tensor.shape},
               {"pieces", Json::array()}};
  if (tensor.replicas > 0)
    json["replicas"] = tensor.replicas;
  if (tensor.pieced != tensor.shape)
    json["pieced"] = tensor.pieced;
  for (const CheckpointTensor::Piece &piece : tensor.pieces) {
    Json part = {{"file", piece.file}};
    if (piece.shape != tensor.pieced)
      part["start"] = piece.start, part["shape"] = piece.shape;
    json["pieces"].push_back(std::move(part));
  }
  return json;
}
} // namespace

std::string divisi::runtime::textOf(const TrainingPoint &point) { return dumpJson(describe(point)); }

Result<TrainingPoint> divisi::runtime::pointIn(const std::string &text) {
  const char *what = "what another rank tells of the training";
  Result<Json> json = parseJson(text, what);
  if (!json.ok())
    return json.status();
  JsonReader reader(*json, what);
  TrainingPoint point;
  readPoint(*json, reader, point);
  return reader.status().ok() ? Result<TrainingPoint>(std::move(point)) : reader.status();
}

CheckpointManifest CheckpointManifest::of(const Manifest &program, TrainingPoint point,
                                          std::vector<CheckpointFile> files) {
  CheckpointManifest manifest{
      std::move(point), program.model, program.identity(), program.program, program.batch, {}, {}};
  std::map<std::string, size_t> numbers;
  for (const State &state : program.state) {
    numbers[state.name] = manifest.tensors.size();
    manifest.tensors.push_back({state.name,
                                nameOf(state.role),
                                state.dtype,
                                program.storedShape(state, state.wholeShape()),
                                program.storedShape(state, state.owner().splitShape()),
                                {},
                                program.replicasOf(state)});
  }
  for (size_t rank = 0; rank < files.size(); ++rank) {
    if (files[rank].name.empty())
      continue;
    for (const Shard &shard : shardsOf(program, static_cast<int64_t>(rank)))
      manifest.tensors[numbers[shard.state->name]].pieces.push_back(
          {manifest.files.size(), shard.slice.start, shard.shape()});
    manifest.files.push_back(std::move(files[rank]));
  }
  return manifest;
}

const CheckpointTensor &CheckpointManifest::tensor(const std::string &name) const {
  return *std::find_if(tensors.begin(), tensors.end(), [&](const CheckpointTensor &t) { return t.name == name; });
}

Status CheckpointManifest::write(const std::string &path) const {
  Json json = describe(point);
  json.update({{"version", version},
               {"model", model},
               {"state", state},
               {"program", program},
               {"batch_size", batchSize},
               {"files", Json::array()},
               {"tensors", Json::array()}});
  for (const CheckpointFile &file : files)
    json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"hashes", file.hashes}});
  for (const CheckpointTensor &tensor : tensors)
    json["tensors"].push_back(describe(tensor));
  json["hash"] = hashOf(json);
  return writeFile(path, dumpJson(json) + "\n");
}

Result<CheckpointManifest> CheckpointManifest::read(const std::string &path, Fault &fault) {
  fault = Fault::Damaged;
  Result<MappedFile> text = MappedFile::open(path);
  if (!text.ok())
    return text.status();
  std::string what = concat("'", path, "'");
  Result<Json> json = parseJson(text->text(), what);
  if (!json.ok())
    return json.status();
  JsonReader reader(*json, what);
  int64_t found = reader.integer("version");
  if (!reader.status().ok())
    return reader.status();
  std::string hash = reader.text("hash", "");
  bool sound = hash == hashOf(*json);
  // In the first format the hash was computed differently, and did not cover the manifest.
  if (found != version && (sound || found == 1)) {
    fault = Fault::Foreign;
    return failure(what, " is of format ", found, ", but this program reads checkpoints of format ", version,
                   ": it was written by another version of Divisi");
  }
  if (!sound)
    return failure(what, " is damaged: its contents have changed since it was written");
  CheckpointManifest manifest;
  TrainingPoint &point = manifest.point;
  manifest.model = reader.text("model");
  manifest.state = reader.text("state");
  manifest.program = texts(reader, "program");
  manifest.batchSize = reader.integer("batch_size");
  readPoint(*json, reader, point);
  for (const Json &file : reader.array("files"))
    manifest.files.push_back(readFile(file, reader));
  std::set<std::string> names;
  for (const Json &tensor : reader.array("tensors")) {
    manifest.tensors.push_back(readTensor(tensor, manifest.files, reader));
    if (!names.insert(manifest.tensors.back().name).second)
      reader.fail("has a tensor twice");
  }
  if (!reader.status().ok())
    return reader.status();
  return manifest;
}

Status CheckpointManifest::fits(const Manifest &now, const std::string &what, bool anyway) const {
  auto replicasOf = [](const auto &all, auto count) {
    int64_t most = 0;
    for (const auto &one : all)
      most = std::max(most, count(one));
    return most;
  };
  int64_t here = replicasOf(now.state, [&](const State &s) { return now.replicasOf(s); });
  int64_t there = replicasOf(tensors, [](const CheckpointTensor &t) { return t.replicas; });
  auto told = [](int64_t count) { return count == 0 ? std::string("one state") : concat(count, " replicas with a state each"); };
  if (here != there)
    return failure(what, " is of ", told(there), ", and this program of ", told(here),
                   ": go on from its mean by `divisi checkpoint export` and --weights");
  Status same = checkState(now, [](const State &) { return true; }, what, [&](const std::string &name) {
    auto it = std::find_if(tensors.begin(), tensors.end(), [&](const CheckpointTensor &t) { return t.name == name; });
    if (it == tensors.end())
      return std::optional<std::pair<DataType, Shape>>();
    return std::optional(std::pair(it->dtype, Shape(it->shape.begin() + (it->replicas > 0), it->shape.end())));
  });
  if (!same.ok())
    return same;
  if (state != now.identity())
    return failure(what, " is a checkpoint of another model or optimizer");
  if (anyway)
    return {};
  std::map<std::string, std::string> parts = now.program;
  parts.insert(program.begin(), program.end());
  std::string difference;
  for (const auto &[part, ignored] : parts) {
    auto textOf = [&part = part](const std::map<std::string, std::string> &all) {
      auto it = all.find(part);
      return it == all.end() ? std::string(part == "synchronisation" ? "that of one device" : "unknown") : it->second;
    };
    if (std::string before = textOf(program), after = textOf(now.program); before != after)
      difference += concat(difference.empty() ? "" : "; ", "its ", part, " is ", before, ", this program's ", after);
  }
  if (difference.empty())
    return {};
  return failure(what, " is a checkpoint of another training program: ", difference,
                 " (--resume-anyway goes on from it all the same)");
}
