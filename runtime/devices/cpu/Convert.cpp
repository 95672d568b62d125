#include "runtime/devices/cpu/Convert.h"
#include "runtime/core/Half.h"

#include <cstring>

using namespace divisi::runtime;

void divisi::runtime::convertToFloat(const void *from, int64_t type, float *to, int64_t count) {
  const auto *bits = static_cast<const uint16_t *>(from);
  if (type == DIVISI_F32)
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
  else if (type == DIVISI_BF16)
    for (int64_t i = 0; i < count; ++i)
      to[i] = bfloatToFloat(bits[i]);
  else
    for (int64_t i = 0; i < count; ++i)
      to[i] = halfToFloat(bits[i]);
}

void divisi::runtime::convertFromFloat(const float *from, void *to, int64_t type, int64_t count) {
  auto *bits = static_cast<uint16_t *>(to);
  if (type == DIVISI_F32)
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
  else if (type == DIVISI_BF16)
    for (int64_t i = 0; i < count; ++i)
      bits[i] = floatToBfloat(from[i]);
  else
    for (int64_t i = 0; i < count; ++i)
      bits[i] = floatToHalf(from[i]);
}

void divisi::runtime::roundFloats(float *values, int64_t type, int64_t count) {
  if (type == DIVISI_BF16)
    for (int64_t i = 0; i < count; ++i)
      values[i] = bfloatToFloat(floatToBfloat(values[i]));
  else if (type == DIVISI_F16)
    for (int64_t i = 0; i < count; ++i)
      values[i] = halfToFloat(floatToHalf(values[i]));
}
