//===- Vectors.h - loops for the vectors of this processor ------*- C++ -*-===//
// The runtime is compiled for every processor of its architecture. Loops that take a step's time are compiled for wider vectors, too.
#ifndef DIVISI_RUNTIME_DEVICES_CPU_VECTORS_H
#define DIVISI_RUNTIME_DEVICES_CPU_VECTORS_H

#include <algorithm>
#include <bit>
#include <cstdint>

namespace divisi::runtime {

#ifdef __x86_64__
template <typename Loop, typename... Arguments>
__attribute__((target("arch=x86-64-v4"), noinline)) auto onAvx512(Arguments... arguments) {
  return Loop::run(arguments...);
}
template <typename Loop, typename... Arguments>
__attribute__((target("arch=x86-64-v3"), noinline)) auto onAvx2(Arguments... arguments) {
  return Loop::run(arguments...);
}
inline const bool hasAvx512 = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                              __builtin_cpu_supports("avx512cd");
inline const bool hasAvx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
#endif

/// What stands before the function Loop::run.
#define DIVISI_LOOP __attribute__((always_inline)) static inline

/// Loop::run(arguments...) with the widest vectors that this processor has. The loop calls nothing that is not inlined.
template <typename Loop, typename... Arguments> auto onVectors(Arguments... arguments) {
#ifdef __x86_64__
  if (hasAvx512)
    return onAvx512<Loop>(arguments...);
  if (hasAvx2)
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
