#pragma once
#include "llvm/ADT/ArrayRef.h"

#include <cstdint>

namespace divisi::test {

/// Random numbers that depend only on the seed, on every platform (SplitMix64).
class Draw {
public:
  explicit Draw(uint64_t seed) : state(seed * 0x9e3779b97f4a7c15u + 1) {}

  uint64_t bits() {
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// From [0, n).
  int64_t below(int64_t n) { return (int64_t)(bits() % (uint64_t)n); }
  /// From [low, high].
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  double unit() { return (double)(bits() >> 11) * 0x1p-53; }
  bool chance(double probability) { return unit() < probability; }
  template <typename T> T of(std::initializer_list<T> choices) {
    return choices.begin()[below((int64_t)choices.size())];
  }
  template <typename List> auto &in(List &list) { return list[below((int64_t)list.size())]; }

private:
  uint64_t state;
};

} // namespace divisi::test
