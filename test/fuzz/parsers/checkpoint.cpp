// A checkpoint's manifest beside a state that is sound: what is restored from it, or why not.
#include "runtime/checkpoint/CheckpointSaver.h"
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
/// A folder of one checkpoint.
struct Folder {
  Folder() {
    auto folder = CheckpointFolder::open(path);
    if (!folder.ok() || !saveCheckpoint(*folder, manifest, arena, {5, {1, 2}, 3, true, 9}).ok())
      std::abort();
    file = path + "/" + folder->list()->front() + "/manifest.json";
    std::stringstream text;
    text << std::ifstream(file).rdbuf();
    sound = text.str();
  }

  Manifest manifest = *parseManifest(fuzz::model, fuzz::modelArena);
  Arena arena = *Arena::create(fuzz::modelArena);
  std::string path = fuzz::temporary(), file, sound;
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
    std::abort(); // accepted, and nonsense
  return 0;
}

/// Gives a manifest the hash that its contents have: what is read behind that check is to be reached.
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

/// Begins with what a program has written.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  if (const std::string &sound = folder().sound; (size < 8 || seed % 512 == 0) && sound.size() <= most)
    return sound.copy(reinterpret_cast<char *>(data), sound.size());
  size = fuzz::mutateJson(data, size, most, seed);
  return seed % 8 == 0 ? size : seal(data, size, most);
}
