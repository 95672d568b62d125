#include "runtime/checkpoint/CheckedFile.h"
#include "runtime/core/Hash.h"

#include <algorithm>
#include <cstring>

using namespace divisi::runtime;

namespace {
constexpr size_t chunk = ChunkHasher::chunk;
/// Parts of the file that were read are released after this number of bytes.
constexpr size_t window = 8 * chunk;
} // namespace

CheckedFile::CheckedFile(SafetensorsFile contents, std::optional<std::string> hashes, Status changed)
    : contents(std::move(contents)), hashes(std::move(hashes)), changed(std::move(changed)),
      checked((this->contents.contents().size() + chunk - 1) / chunk, !this->hashes) {}

Result<CheckedFile> CheckedFile::open(const std::string &path, std::optional<std::string> hashes, Status changed) {
  Result<SafetensorsFile> contents = SafetensorsFile::open(path);
  if (!contents.ok())
    return contents.status();
  CheckedFile file(std::move(*contents), std::move(hashes), std::move(changed));
  uint64_t header = 0; // its bytes; it has the tensors' places and types
  std::memcpy(&header, file.contents.contents().data(), sizeof(header));
  if (Status status = file.check(0, sizeof(header) + header); !status.ok())
    return status;
  return file;
}

Status CheckedFile::check(size_t begin, size_t bytes) {
  std::string_view all = contents.contents();
  for (size_t i = begin / chunk; i * chunk < begin + bytes; ++i) {
    if (checked[i])
      continue;
    size_t size = std::min(chunk, all.size() - i * chunk);
    if (!ChunkHasher::matches(*hashes, i, all.data() + i * chunk, size))
      return changed;
    checked[i] = true;
    low = std::min(low, i * chunk);
    high = std::max(high, i * chunk + size);
    touched += size;
  }
  return {};
}

Status CheckedFile::copy(const char *from, size_t bytes, char *to) {
  auto begin = static_cast<size_t>(from - contents.contents().data());
  while (bytes > 0) { // a long part is released while it is read
    size_t part = std::min(bytes, chunk);
    if (Status status = check(begin, part); !status.ok())
      return status;
    std::memcpy(to, contents.contents().data() + begin, part);
    low = std::min(low, begin);
    high = std::max(high, begin + part);
    touched += part;
    begin += part, to += part, bytes -= part;
    if (touched > window)
      release();
  }
  return {};
}

void CheckedFile::release() {
  contents.release(low, high - low);
  low = SIZE_MAX, high = 0, touched = 0;
}
