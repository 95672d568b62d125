//===- Vectors.h - loops for the vectors of this processor ------*- C++ -*-===//
// The runtime is compiled for every processor of its architecture. Loops that take a step's time are compiled for wider vectors, too.
#ifndef DIVISI_RUNTIME_DEVICES_CPU_VECTORS_H
#define DIVISI_RUNTIME_DEVICES_CPU_VECTORS_H

#include <algorithm>
#include <bit>
#include <cstdint>

#if defined(__x86_64__) && !defined(__AVX__)
#define DIVISI_WIDER_VECTORS
#endif

namespace divisi::runtime {

#ifdef DIVISI_WIDER_VECTORS
template <typename Loop, typename... Arguments>
__attribute__((target("arch=x86-64-v4"), noinline)) auto onAvx512(Arguments... arguments) {
  return Loop::run(arguments...);
}
template <typename Loop, typename... Arguments>
__attribute__((target("arch=x86-64-v3"), noinline)) auto onAvx2(Arguments... arguments) {
  return Loop::run(arguments...);
}
#endif

/// Which of them are used: those that this processor has. Tests take some away.
struct Vectors {
#ifdef DIVISI_WIDER_VECTORS
  bool avx512 = __builtin_cpu_supports("x86-64-v4"), avx2 = __builtin_cpu_supports("x86-64-v3");
#endif
};
inline Vectors vectors;

/// What stands before the function Loop::run.
#define DIVISI_LOOP __attribute__((always_inline)) static inline

/// Loop::run(arguments...) with the widest vectors that this processor has. What a loop calls must be small enough to be inlined, or it is slow.
template <typename Loop, typename... Arguments> auto onVectors(Arguments... arguments) {
#ifdef DIVISI_WIDER_VECTORS
  if (vectors.avx512)
    return onAvx512<Loop>(arguments...);
  if (vectors.avx2)
    return onAvx2<Loop>(arguments...);
#endif
  return Loop::run(arguments...);
}

/// e^x for x in [-87, 60], in operations that compilers vectorize: 2^n e^r with |r| <= ln(2) / 2, by a Taylor series.
__attribute__((always_inline)) inline float expOf(float x) {
  constexpr float toWhole = 0x1.8p23F, log2e = 1.44269504F, ln2High = 0.693359375F, ln2Low = -2.12194440e-4F;
  float shifted = x * log2e + toWhole, n = shifted - toWhole; // the lowest bits also contain n
  float r = x - n * ln2High - n * ln2Low;
  float series = 1 + r * (1 + r * (1 / 2.F + r * (1 / 6.F + r * (1 / 24.F + r * (1 / 120.F + r / 720.F)))));
  return series * std::bit_cast<float>((std::bit_cast<uint32_t>(shifted) + 127) << 23);
}

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DEVICES_CPU_VECTORS_H
