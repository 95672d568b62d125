//===- Half.h - 16-bit floating-point numbers -------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_HALF_H
#define DIVISI_RUNTIME_CORE_HALF_H

#include <bit>
#include <cstdint>

namespace divisi::runtime {

/// bfloat16 (its bits) to float: exact.
inline float bfloatToFloat(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

/// Rounds to nearest, ties to even; NaN stays NaN.
inline uint16_t floatToBfloat(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : rounded);
}

/// IEEE binary16 (its bits) to float: exact.
inline float halfToFloat(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000u) << 16, rest = uint32_t(bits & 0x7fffu) << 13;
  // Changing the exponent's bias by a multiplication also normalizes subnormals.
  float magnitude = std::bit_cast<float>(rest) * 0x1p112f;
  auto out = std::bit_cast<uint32_t>(magnitude);
  if ((bits & 0x7c00u) == 0x7c00u)
    out = rest | 0x7f800000u;
  return std::bit_cast<float>(out | sign);
}

/// Rounds to nearest, ties to even; too large numbers become infinite, NaN stays NaN.
inline uint16_t floatToHalf(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  uint32_t sign = (bits >> 16) & 0x8000u, rest = bits & 0x7fffffffu;
  uint32_t out;
  if (rest > 0x7f800000u)
    out = 0x7e00u;
  else if (rest >= 0x477ff000u) // 65520: rounds to infinity
    out = 0x7c00u;
  else if (rest < 0x38800000u) // below 2^-14: adding 0.5 shifts the fraction to its position in a subnormal
    out = std::bit_cast<uint32_t>(std::bit_cast<float>(rest) + 0.5f) - 0x3f000000u;
  else
    out = (rest - 0x38000000u + 0xfffu + ((rest >> 13) & 1)) >> 13;
  return static_cast<uint16_t>(sign | out);
}

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_HALF_H
