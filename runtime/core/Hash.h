//===- Hash.h - content hashes ----------------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_HASH_H
#define DIVISI_RUNTIME_CORE_HASH_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace divisi::runtime {

/// FNV-1a of 64 bits, spelled "fnv1a64:0123456789abcdef".
std::string fnv1a64(const void *data, size_t bytes);

/// FNV-1a over the FNV-1a hashes of chunks of 1 MiB: the pool's threads share the work. Spelled "fnv1a64c:...".
std::string chunkedHash(const void *data, size_t bytes);

/// The state of a generator with one word: a counter in, well-mixed bits out (splitmix64's finalizer).
inline uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_HASH_H
