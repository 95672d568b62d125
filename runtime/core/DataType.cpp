#include "runtime/core/DataType.h"
#include "runtime/core/Half.h"

#include <algorithm>
#include <array>
#include <cstring>

using namespace divisi::runtime;

namespace {
struct NamedType {
  DataType type;
  const char *name;
  int width;
  int onnx;
};
constexpr std::array<NamedType, 13> table = {{{DataType::F32, "F32", 4, 1},
                                              {DataType::F64, "F64", 8, 11},
                                              {DataType::F16, "F16", 2, 10},
                                              {DataType::BF16, "BF16", 2, 16},
                                              {DataType::I64, "I64", 8, 7},
                                              {DataType::I32, "I32", 4, 6},
                                              {DataType::I16, "I16", 2, 5},
                                              {DataType::I8, "I8", 1, 3},
                                              {DataType::U8, "U8", 1, 2},
                                              {DataType::U16, "U16", 2, 4},
                                              {DataType::U32, "U32", 4, 12},
                                              {DataType::U64, "U64", 8, 13},
                                              {DataType::BOOL, "BOOL", 1, 9}}};
const NamedType &rowOf(DataType type) { return table[static_cast<size_t>(type)]; }

/// Calls visit with a value of the C++ type that stores `type` (uint16_t for both halves).
template <typename Visitor> auto dispatch(DataType type, Visitor visit) {
  switch (type) {
  case DataType::F32:
    return visit(float());
  case DataType::F64:
    return visit(double());
  case DataType::I64:
    return visit(int64_t());
  case DataType::I32:
    return visit(int32_t());
  case DataType::I16:
    return visit(int16_t());
  case DataType::I8:
    return visit(int8_t());
  case DataType::U32:
    return visit(uint32_t());
  case DataType::U64:
    return visit(uint64_t());
  case DataType::U8:
  case DataType::BOOL:
    return visit(uint8_t());
  case DataType::F16:
  case DataType::BF16:
  case DataType::U16:
    break;
  }
  return visit(uint16_t());
}

template <typename T> T load(const void *address) {
  T value;
  std::memcpy(&value, address, sizeof(T));
  return value;
}
} // namespace

const char *divisi::runtime::nameOf(DataType type) { return rowOf(type).name; }
std::optional<int64_t> divisi::runtime::abiType(DataType type) {
  switch (type) {
  case DataType::F32:
    return DIVISI_F32;
  case DataType::F64:
    return DIVISI_F64;
  case DataType::BF16:
    return DIVISI_BF16;
  case DataType::F16:
    return DIVISI_F16;
  case DataType::I64:
    return DIVISI_I64;
  case DataType::I32:
    return DIVISI_I32;
  case DataType::I16:
    return DIVISI_I16;
  case DataType::I8:
    return DIVISI_I8;
  case DataType::U8:
  case DataType::BOOL:
    return DIVISI_U8;
  case DataType::U16:
  case DataType::U32:
  case DataType::U64:
    return std::nullopt;
  }
  return std::nullopt;
}

int64_t divisi::runtime::widthOf(DataType type) { return rowOf(type).width; }
int divisi::runtime::onnxCodeOf(DataType type) { return rowOf(type).onnx; }
bool divisi::runtime::isFloat(DataType type) { return type <= DataType::BF16; }

std::optional<DataType> divisi::runtime::parseDataType(std::string_view name) {
  for (const NamedType &row : table)
    if (name == row.name)
      return row.type;
  return std::nullopt;
}

double divisi::runtime::readNumber(const void *address, DataType type) {
  if (type == DataType::F16)
    return halfToFloat(load<uint16_t>(address));
  if (type == DataType::BF16)
    return bfloatToFloat(load<uint16_t>(address));
  return dispatch(type, [&](auto zero) { return static_cast<double>(load<decltype(zero)>(address)); });
}

int64_t divisi::runtime::readInteger(const void *address, DataType type) {
  if (isFloat(type))
    return static_cast<int64_t>(readNumber(address, type));
  return dispatch(type, [&](auto zero) { return static_cast<int64_t>(load<decltype(zero)>(address)); });
}

void divisi::runtime::writeNumber(void *address, DataType type, double value) {
  if (!isFloat(type))
    return writeInteger(address, type, static_cast<int64_t>(value));
  if (type == DataType::F64) {
    std::memcpy(address, &value, sizeof(value));
    return;
  }
  auto single = static_cast<float>(value);
  if (type == DataType::F32) {
    std::memcpy(address, &single, sizeof(single));
    return;
  }
  uint16_t half = type == DataType::F16 ? floatToHalf(single) : floatToBfloat(single);
  std::memcpy(address, &half, sizeof(half));
}

void divisi::runtime::writeInteger(void *address, DataType type, int64_t value) {
  if (isFloat(type))
    return writeNumber(address, type, static_cast<double>(value));
  dispatch(type, [&](auto zero) {
    auto stored = static_cast<decltype(zero)>(value);
    std::memcpy(address, &stored, sizeof(stored));
  });
}

std::string divisi::runtime::toString(const Shape &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text.append(i ? ", " : "").append(std::to_string(shape[i]));
  return text += "]";
}

std::optional<int64_t> divisi::runtime::byteCount(const Shape &shape, int64_t width) {
  constexpr int64_t limit = int64_t(1) << 62;
  int64_t count = width;
  bool empty = false;
  for (int64_t size : shape) {
    if (size < 0 || (size > 0 && count > limit / size))
      return std::nullopt;
    empty |= size == 0;
    count *= std::max<int64_t>(size, 1);
  }
  return empty ? 0 : count;
}
