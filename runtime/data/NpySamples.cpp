#include "runtime/data/NpySamples.h"

#include <cmath>
#include <cstring>

using namespace divisi::runtime;

namespace {
template <typename From, typename To> void convertEach(const char *from, char *to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, from + i * sizeof(From), sizeof(From));
    auto converted = static_cast<To>(value);
    std::memcpy(to + i * sizeof(To), &converted, sizeof(To));
  }
}
} // namespace

bool NpySamples::isConvertible(DataType from, DataType to) {
  return from == to || (from == DataType::I32 && to == DataType::I64) || (from == DataType::F64 && to == DataType::F32);
}

Status NpySamples::read(int64_t from, int64_t count, char *to, DataType type) const {
  const char *begin = file.data() + from * widthOf(file.dtype());
  if (file.dtype() == type)
    std::memcpy(to, begin, static_cast<size_t>(count * widthOf(type)));
  else if (type == DataType::I64)
    convertEach<int32_t, int64_t>(begin, to, count);
  else
    return narrow(begin, from, count, to);
  return {};
}

Status NpySamples::narrow(const char *begin, int64_t from, int64_t count, char *to) const {
  convertEach<double, float>(begin, to, count);
  for (int64_t i = 0; i < count; ++i)
    if (double value = readNumber(begin + 8 * i, DataType::F64);
        std::isfinite(value) && !std::isfinite(readNumber(to + 4 * i, DataType::F32)))
      return failure("'", path(), "' has the value ", value, " in row ", (from + i) / rowElements, ", element ",
                     (from + i) % rowElements, ", which is too large for F32");
  return {};
}

std::string NpySamples::describe(int64_t element, int64_t value) const {
  return concat("'", path(), "' has the value ", value, " in row ", element / rowElements);
}

void NpySamples::willNeed(int64_t from, int64_t count) const {
  int64_t width = widthOf(file.dtype());
  file.willNeed(static_cast<size_t>(from * width), static_cast<size_t>(count * width));
}
