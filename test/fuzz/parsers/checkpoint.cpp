// A checkpoint's manifest beside valid files of one rank and of two: restoring and exporting it, or the reason why that
// fails.
#include "runtime/checkpoint/CheckpointReader.h"
#include "runtime/checkpoint/CheckpointSaver.h"
#include "runtime/checkpoint/Shards.h"
#include "runtime/core/Hash.h"
#include "runtime/core/Json.h"
#include "test/fuzz/parsers/Input.h"
#include "test/fuzz/parsers/Model.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

using namespace divisi;
using namespace divisi::runtime;

namespace {
std::string readText(const std::string &path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  return text.replace(text.find(from), from.size(), to);
}

/// A folder with one checkpoint, which has the files of one rank and of two, and the manifest of either.
struct Folder {
  Folder() {
    auto folder = CheckpointFolder::open(path);
    if (!folder.ok() || !saveCheckpoint(*folder, manifest, arena, point).ok())
      std::abort();
    step = path + "/" + folder->list()->front();
    file = step + "/manifest.json";
    sound = readText(file);
    shard();
  }

  /// Writes the files of two ranks, each of which has one half of `w`.
  void shard() {
    std::string text(fuzz::model);
    text = replaced(text, "{\"abi\"", R"({"mesh": [{"name": "model", "size": 2}], "abi")");
    text = replaced(text, R"("shape": [4], "offset": 128, "bytes": 16)",
                    R"("shape": [2], "offset": 128, "bytes": 8, "global_shape": [4], "split": [[0]])");
    text = replaced(text, R"({"name": "rows")", R"({"name": "axis_index.model", "dtype": "I64", "offset": 512}, {"name": "rows")");
    auto program = parseManifest(text, fuzz::modelArena);
    if (!program.ok())
      std::abort();
    std::vector<CheckpointFile> files;
    for (int64_t rank = 0; rank < 2; ++rank) {
      std::vector<NamedTensor> tensors;
      for (const Shard &shard : shardsOf(*program, rank))
        tensors.push_back({shard.state->name, shard.state->dtype, shard.shape(), arena.at(*shard.state), static_cast<size_t>(shard.state->bytes)});
      std::string name = concat("state-", rank, ".safetensors");
      ChunkHasher hasher;
      if (!writeSafetensors(step + "/" + name, tensors, {}, {}, &hasher).ok())
        std::abort();
      int64_t bytes = hasher.bytes();
      files.push_back({name, bytes, std::move(hasher).text()});
    }
    if (!CheckpointManifest::of(*program, point, files).write(file).ok())
      std::abort();
    sharded = readText(file);
  }

  TrainingPoint point = {5, {1, 2}, 3, true, 9};
  Manifest manifest = *parseManifest(fuzz::model, fuzz::modelArena);
  Arena arena = *Arena::create(fuzz::modelArena);
  std::string path = fuzz::temporary(), step, file, sound, sharded;
};

Folder &folder() {
  static Folder one;
  return one;
}
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::write(folder().file, fuzz::text(data, size));
  std::string name;
  auto point = CheckpointFolder::open(folder().path)
                   ->restore(folder().manifest, folder().arena, name, [](const std::string &) {});
  if (point.ok() && (point->step < 0 || point->cursor.epoch < 0 || point->cursor.batch < 0))
    std::abort(); // accepted, although invalid
  (void)exportCheckpoint(folder().step, folder().path + "/exported", size % 2 == 0);
  return 0;
}

/// Sets the hash of a manifest to that of its contents, so that the parser behind this check is reached.
static size_t seal(uint8_t *data, size_t size, size_t most) {
  auto json = parseJson(fuzz::text(data, size), "");
  if (!json.ok() || !json->is_object())
    return size;
  json->erase("hash");
  std::string contents = dumpJson(*json);
  (*json)["hash"] = fnv1a64(contents.data(), contents.size());
  std::string text = dumpJson(*json);
  return text.size() <= most ? text.copy(reinterpret_cast<char *>(data), text.size()) : size;
}

/// Begins with a checkpoint that a program has written.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  if (const std::string &sound = seed & 1 ? folder().sound : folder().sharded; (size < 8 || seed % 512 < 2) && sound.size() <= most)
    return sound.copy(reinterpret_cast<char *>(data), sound.size());
  size = fuzz::mutateJson(data, size, most, seed);
  return seed % 8 == 0 ? size : seal(data, size, most);
}
