// Weights: header, ranges and contents, and a program that takes them.
#include "runtime/checkpoint/Weights.h"
#include "test/fuzz/parsers/Input.h"
#include "test/fuzz/parsers/Model.h"

#include <cstdlib>
#include <cstring>

using namespace divisi;

namespace {
/// A program that trains from the file's `w`.
void load(const std::string &path, const runtime::SafetensorsFile &file) {
  static const runtime::Manifest manifest = *runtime::parseManifest(fuzz::model, fuzz::modelArena);
  static const runtime::Arena arena = *runtime::Arena::create(fuzz::modelArena);
  const runtime::State &state = manifest.state.front();
  if (!runtime::loadWeights(manifest, arena, path, "", [&](const runtime::State &other) {
         return other.name == state.name;
       }).ok())
    return;
  auto found = file.entries().find(state.name);
  if (found == file.entries().end() || found->second.bytes != static_cast<size_t>(state.bytes) ||
      std::memcmp(found->second.data, arena.at(state), found->second.bytes) != 0)
    std::abort();
}
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string path = fuzz::fileOf(fuzz::text(data, size));
  auto file = runtime::SafetensorsFile::open(path);
  if (!file.ok())
    return 0;
  load(path, *file);
  std::vector<runtime::NamedTensor> tensors;
  for (const auto &[name, entry] : file->entries()) {
    fuzz::use(entry.data, entry.bytes);
    tensors.push_back({name, entry.dtype, entry.shape, entry.data, entry.bytes});
  }
  if (size % 16 != 0) // files on disk are slow
    return 0;
  // What was read can be written, and reading that again gives the same.
  static const std::string copy = fuzz::temporary() + "/copy.safetensors";
  auto written = runtime::writeSafetensors(copy, tensors, file->metadata());
  auto again = runtime::SafetensorsFile::open(copy);
  bool same = written.ok() && again.ok() && again->entries().size() == tensors.size();
  for (const auto &tensor : tensors) {
    if (!same || !(same = again->entries().count(tensor.name)))
      break;
    const auto &entry = again->entries().at(tensor.name);
    same = entry.shape == tensor.shape && entry.dtype == tensor.dtype && entry.bytes == tensor.bytes &&
           std::memcmp(entry.data, tensor.data, tensor.bytes) == 0;
  }
  if (!same)
    std::abort();
  return 0;
}

/// In most cases makes the length before the header fit the header.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  uint64_t length = 0;
  if (size >= 8)
    std::memcpy(&length, data, 8);
  if (size < 8 || length > size - 8 || seed % 8 == 0)
    return LLVMFuzzerMutate(data, size, most);
  std::string body(reinterpret_cast<char *>(data) + 8 + length, size - 8 - length);
  if (seed % 8 == 1)
    body.resize(body.size() ^ (1u << seed % 5));
  if (most < 8 + body.size())
    return LLVMFuzzerMutate(data, size, most);
  length = fuzz::mutateJson(data + 8, length, most - 8 - body.size(), seed / 8);
  std::memcpy(data, &length, 8);
  std::memcpy(data + 8 + length, body.data(), body.size());
  return 8 + length + body.size();
}
