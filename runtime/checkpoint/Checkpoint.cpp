#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/AtomicFile.h"
#include "runtime/checkpoint/Weights.h"
#include "runtime/core/Hash.h"
#include "runtime/core/Json.h"

#include <algorithm>
#include <filesystem>
#include <unistd.h>

using namespace divisi::runtime;
namespace fs = std::filesystem;

namespace {
constexpr size_t kept = 2;
constexpr int version = 1;

bool all(const State &) { return true; }

/// The N of "step-N".
std::optional<int64_t> stepOf(const std::string &name) {
  if (!name.starts_with("step-") || name.size() < 6 || name.size() > 23 ||
      !std::all_of(name.begin() + 5, name.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  return std::stoll(name.substr(5));
}

/// What stands beside the tensors in `folder`.
Status describe(const std::string &folder, const Manifest &manifest, const TrainingPoint &point) {
  Result<MappedFile> written = MappedFile::open(folder + "/state.safetensors");
  if (!written.ok())
    return written.status();
  OrderedJson json = {{"version", version},
                      {"model", manifest.model},
                      {"identity", manifest.identity()},
                      {"hash", chunkedHash(written->data(), written->size())},
                      {"step", point.step},
                      {"epoch", point.cursor.epoch},
                      {"batch", point.cursor.batch},
                      {"seed", point.seed},
                      {"shuffle", point.shuffle},
                      {"samples", point.samples},
                      {"batch_size", manifest.batch}};
  return writeFile(folder + "/manifest.json", dumpJson(json) + "\n");
}

/// Why a checkpoint cannot be used: damage is passed over, a difference of models is not.
struct Problem {
  Status status;
  bool damaged = true;
};

Problem read(const std::string &folder, const Manifest &manifest, const Arena &arena, TrainingPoint &point) {
  Result<MappedFile> text = MappedFile::open(folder + "/manifest.json");
  if (!text.ok())
    return {text.status()};
  std::string what = concat("'", folder, "/manifest.json'");
  Result<Json> json = parseJson(text->text(), what);
  if (!json.ok())
    return {json.status()};
  JsonReader reader(*json, what);
  std::string identity = reader.text("identity"), hash = reader.text("hash");
  int64_t found = reader.integer("version"), batch = reader.integer("batch_size");
  point.step = reader.integer("step");
  point.cursor = {reader.integer("epoch"), reader.integer("batch")};
  // 64 bits without a sign.
  if (!reader.has("seed") || !json->at("seed").is_number_unsigned())
    reader.fail("has no seed");
  else
    point.seed = json->at("seed").get<uint64_t>();
  point.shuffle = reader.boolean("shuffle", true);
  point.samples = reader.integer("samples");
  if (point.step < 0 || point.cursor.epoch < 0 || point.cursor.batch < 0 || point.samples < 0)
    reader.fail("has negative counts");
  if (!reader.status().ok())
    return {reader.status()};
  if (found != version)
    return {failure(what, " has the unknown version ", found), false};

  Result<SafetensorsFile> tensors = SafetensorsFile::open(folder + "/state.safetensors");
  if (!tensors.ok())
    return {tensors.status()};
  if (chunkedHash(tensors->contents().data(), tensors->contents().size()) != hash)
    return {failure("'", tensors->path(), "' is damaged: its contents have changed since it was written")};
  if (batch != manifest.batch)
    return {failure("'", folder, "' was made with a batch of ", batch, ", but the model has ", manifest.batch), false};
  if (Status status = readState(manifest, arena, *tensors, all); !status.ok())
    return {status, false};
  if (identity != manifest.identity())
    return {failure("'", folder, "' is a checkpoint of another model or optimizer"), false};
  return {};
}

void discard(const std::string &path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

std::string systemMessage(const std::error_code &error) { return error.message(); }
} // namespace

Result<CheckpointFolder> CheckpointFolder::open(const std::string &path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error || !fs::is_directory(path, error))
    return failure("cannot make the folder '", path, "': ", error ? systemMessage(error) : "a file has this name");
  return CheckpointFolder(path);
}

std::vector<std::string> CheckpointFolder::list() const {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (std::string name = it->path().filename().string(); stepOf(name))
      names.push_back(name);
  std::sort(names.begin(), names.end(), [](auto &a, auto &b) { return *stepOf(a) > *stepOf(b); });
  return names;
}

Status CheckpointFolder::save(GlobalState &state, const TrainingPoint &point) const {
  std::string name = concat("step-", point.step), temporary = concat(folder, "/.", name, ".tmp-", getpid());
  std::error_code error;
  Status status;
  if (state.writes()) {
    discard(temporary);
    fs::create_directory(temporary, error);
    if (error)
      status = failure("cannot write checkpoint '", folder, "/", name, "': ", systemMessage(error));
  }
  status = state.agree(status);
  if (status.ok())
    status = saveState(state, temporary + "/state.safetensors", all);
  if (!state.writes())
    return status.ok() ? state.agree(status) : status;
  bool together = status.ok();
  if (status.ok())
    status = describe(temporary, state.manifest(), point);
  if (status.ok())
    status = publish(temporary, name);
  discard(temporary);
  if (together)
    status = state.agree(status);
  if (status.ok())
    clearUp();
  return status;
}

Status CheckpointFolder::publish(const std::string &temporary, const std::string &name) const {
  std::string place = folder + "/" + name, old = concat(folder, "/.", name, ".old-", getpid());
  std::error_code error;
  Status status = syncFolder(temporary);
  if (status.ok()) {
    if (fs::exists(place, error))
      fs::rename(place, old, error);
    if (!error)
      fs::rename(temporary, place, error);
    if (error)
      status = failure("cannot write checkpoint '", place, "': ", systemMessage(error));
  }
  if (status.ok())
    status = syncFolder(folder);
  if (status.ok())
    status = writeFile(folder + "/latest", name + "\n");
  discard(old);
  return status;
}

void CheckpointFolder::clearUp() const {
  std::vector<std::string> names = list();
  for (size_t i = kept; i < names.size(); ++i)
    discard(folder + "/" + names[i]);
  // What programs that were killed while they wrote have left.
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (it->path().filename().string().starts_with(".step-"))
      discard(it->path().string());
}

Result<TrainingPoint> CheckpointFolder::restore(const Manifest &manifest, const Arena &arena, std::string &name,
                                                const std::function<void(const std::string &)> &warn) const {
  std::vector<std::string> names = list();
  for (const std::string &candidate : names) {
    TrainingPoint point;
    Problem problem = read(folder + "/" + candidate, manifest, arena, point);
    if (problem.status.ok()) {
      name = candidate;
      return point;
    }
    if (!problem.damaged)
      return problem.status;
    warn(concat("passing over checkpoint ", candidate, ": ", problem.status.message()));
  }
  return failure("there is no usable checkpoint in '", folder, "'");
}
