#pragma once
#include <bit>
#include <cstdint>

/// Floats of all widths, as libraries have them in memory.
enum class Kind { Float, Double, Half, Brain };

inline double number(Kind kind, const void *data, int64_t at) {
  switch (kind) {
  case Kind::Float:
    return ((const float *)data)[at];
  case Kind::Double:
    return ((const double *)data)[at];
  case Kind::Half:
    return (double)((const _Float16 *)data)[at];
  case Kind::Brain:
    return std::bit_cast<float>((uint32_t)((const uint16_t *)data)[at] << 16);
  }
  return 0;
}

/// Rounded to nearest even.
inline void setNumber(Kind kind, void *data, int64_t at, double value) {
  switch (kind) {
  case Kind::Float:
    ((float *)data)[at] = (float)value;
    return;
  case Kind::Double:
    ((double *)data)[at] = value;
    return;
  case Kind::Half:
    ((_Float16 *)data)[at] = (_Float16)value;
    return;
  case Kind::Brain: {
    auto bits = std::bit_cast<uint32_t>((float)value);
    ((uint16_t *)data)[at] = (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  }
  }
}
