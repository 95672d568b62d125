// Weights: header, ranges and contents.
#include "runtime/checkpoint/Safetensors.h"
#include "test/fuzz/parsers/Input.h"

#include <cstdlib>
#include <cstring>

using namespace divisi;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto file = runtime::SafetensorsFile::open(fuzz::fileOf(fuzz::text(data, size)));
  if (!file.ok())
    return 0;
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
