//===- DataType.h - element types of tensors --------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_DATATYPE_H
#define DIVISI_RUNTIME_CORE_DATATYPE_H

#include "divisi/abi.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace divisi::runtime {

/// Element types, named as safetensors names them.
enum class DataType { F32, F64, F16, BF16, I64, I32, I16, I8, U8, U16, U32, U64, BOOL };

const char *nameOf(DataType type);
std::optional<DataType> parseDataType(std::string_view name);
int64_t widthOf(DataType type);
bool isFloat(DataType type);
/// The code of ONNX's TensorProto.DataType.
int onnxCodeOf(DataType type);

/// One element at any address as a double.
double readNumber(const void *address, DataType type);
/// One element of an integer type; floats are rounded toward zero.
int64_t readInteger(const void *address, DataType type);
/// Stores `value`, converted to `type`.
void writeNumber(void *address, DataType type, double value);
/// Stores `value` in an integer type (or converts it to a float).
void writeInteger(void *address, DataType type, int64_t value);

/// Size of an element of a DivisiType that libraries compute in, in bytes.
inline int64_t widthOfType(int64_t type) { return type == DIVISI_F64 ? 8 : type == DIVISI_F32 ? 4 : 2; }

using Shape = std::vector<int64_t>;
/// As in "[64, 1, 8, 8]".
std::string toString(const Shape &shape);
/// The product of the dimensions and `width`; nothing for negative dimensions or if it exceeds 2^62.
std::optional<int64_t> byteCount(const Shape &shape, int64_t width);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_DATATYPE_H
