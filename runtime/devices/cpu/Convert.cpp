#include "runtime/devices/cpu/Convert.h"
#include "runtime/core/Half.h"
#include "runtime/devices/cpu/Vectors.h"

#include <cstring>

using namespace divisi::runtime;

namespace {
template <auto convert> struct EachElement {
  template <typename From, typename To> DIVISI_LOOP void run(const From *from, To *to, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      to[i] = convert(from[i]);
  }
};
} // namespace

void divisi::runtime::convertToFloat(const void *from, int64_t type, float *to, int64_t count) {
  const auto *bits = static_cast<const uint16_t *>(from);
  if (type == DIVISI_F32)
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
  else if (type == DIVISI_BF16)
    onVectors<EachElement<bfloatToFloat>>(bits, to, count);
  else
    onVectors<EachElement<halfToFloat>>(bits, to, count);
}

void divisi::runtime::convertFromFloat(const float *from, void *to, int64_t type, int64_t count) {
  auto *bits = static_cast<uint16_t *>(to);
  if (type == DIVISI_F32)
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
  else if (type == DIVISI_BF16)
    onVectors<EachElement<floatToBfloat>>(from, bits, count);
  else
    onVectors<EachElement<floatToHalf>>(from, bits, count);
}
