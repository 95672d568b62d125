#include "runtime/core/Hash.h"

#include <algorithm>
#include <array>
#include <vector>

namespace {
uint64_t fnv(const void *data, size_t bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  const auto *p = static_cast<const unsigned char *>(data);
  for (size_t i = 0; i < bytes; ++i)
    hash = (hash ^ p[i]) * 0x100000001b3u;
  return hash;
}

std::string spell(const char *kind, uint64_t hash) {
  std::string text = kind;
  for (int shift = 60; shift >= 0; shift -= 4)
    text += "0123456789abcdef"[(hash >> shift) & 15];
  return text;
}
} // namespace

std::string divisi::runtime::fnv1a64(const void *data, size_t bytes) { return spell("fnv1a64:", fnv(data, bytes)); }

std::string divisi::runtime::chunkedHash(const void *data, size_t bytes) {
  constexpr size_t chunk = size_t(1) << 20;
  std::vector<unsigned char> hashes((bytes + chunk - 1) / chunk * 8);
#pragma omp parallel for schedule(static)
  for (size_t i = 0; i < hashes.size() / 8; ++i) {
    uint64_t hash = fnv(static_cast<const char *>(data) + i * chunk, std::min(chunk, bytes - i * chunk));
    for (int b = 0; b < 8; ++b)
      hashes[i * 8 + b] = static_cast<unsigned char>(hash >> (8 * b));
  }
  return spell("fnv1a64c:", fnv(hashes.data(), hashes.size()));
}
