#include "runtime/core/Hash.h"

#include <algorithm>
#include <utility>

using namespace divisi::runtime;

namespace {
uint64_t fnv(const void *data, size_t bytes, uint64_t hash = ChunkHasher::start) {
  const auto *p = static_cast<const unsigned char *>(data);
  for (size_t i = 0; i < bytes; ++i)
    hash = (hash ^ p[i]) * 0x100000001b3u;
  return hash;
}

void spell(std::string &text, uint64_t hash) {
  for (int shift = 60; shift >= 0; shift -= 4)
    text += "0123456789abcdef"[(hash >> shift) & 15];
}
} // namespace

std::string divisi::runtime::fnv1a64(const void *data, size_t bytes) {
  std::string text = "fnv1a64:";
  spell(text, fnv(data, bytes));
  return text;
}

void ChunkHasher::add(const void *data, size_t bytes) {
  const auto *p = static_cast<const char *>(data);
  while (bytes > 0) {
    size_t part = std::min(bytes, chunk - filled);
    hash = fnv(p, part, hash);
    p += part, bytes -= part, filled += part;
    if (filled < chunk)
      continue;
    spell(hashes, std::exchange(hash, start));
    filled = 0;
  }
}

std::string ChunkHasher::text() && {
  if (filled > 0)
    spell(hashes, hash);
  return std::move(hashes);
}

bool ChunkHasher::matches(std::string_view text, size_t index, const void *data, size_t bytes) {
  std::string found;
  spell(found, fnv(data, bytes));
  return text.size() / 16 > index && text.substr(index * 16, 16) == found;
}
