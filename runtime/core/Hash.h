//===- Hash.h - content hashes ----------------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_HASH_H
#define DIVISI_RUNTIME_CORE_HASH_H

#include "divisi/chunk_hash.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace divisi::runtime {

/// 64-bit FNV-1a as text: "fnv1a64:0123456789abcdef".
std::string fnv1a64(const void *data, size_t bytes);

using divisi::ChunkHasher;

/// 2^64 divided by the golden ratio: multiples of it are distinct states of a random generator.
constexpr uint64_t golden = 0x9e3779b97f4a7c15u;

/// A random generator without state: maps a counter to well-mixed bits (splitmix64's finalizer).
inline uint64_t mix64(uint64_t x) {
  x += golden;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// The state of a generator for an epoch.
inline uint64_t randomStart(uint64_t seed, uint64_t epoch) { return mix64(seed) ^ mix64(~epoch); }

/// Maps 64 random bits to [0, 1).
inline double randomUnit(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

/// Maps 64 random bits to [0, size); the bias is below size / 2^64.
inline uint64_t randomBelow(uint64_t bits, uint64_t size) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * size) >> 64);
}

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_HASH_H
