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

/// Element types, with the names of safetensors.
enum class DataType { F32, F64, F16, BF16, I64, I32, I16, I8, U8, U16, U32, U64, BOOL };

const char *nameOf(DataType type);
std::optional<DataType> parseDataType(std::string_view name);
int64_t widthOf(DataType type);
/// The DivisiType of elements; booleans are bytes. Null for unsigned integers of 16 bits and more, which parameter blocks do not have.
std::optional<int64_t> abiType(DataType type);
bool isFloat(DataType type);
/// The code of ONNX's TensorProto.DataType.
int onnxCodeOf(DataType type);

/// One element at any address, as a double.
double readNumber(const void *address, DataType type);
/// One element of an integer type; a float is rounded toward zero.
int64_t readInteger(const void *address, DataType type);
/// Converts `value` to `type` and stores it.
void writeNumber(void *address, DataType type, double value);
/// Stores `value` in an integer type (or converts it to a float).
void writeInteger(void *address, DataType type, int64_t value);

/// The bytes of an element of a DivisiType in which libraries compute.
inline int64_t widthOfType(int64_t type) { return type == DIVISI_F64 ? 8 : type == DIVISI_F32 ? 4 : 2; }

using Shape = std::vector<int64_t>;
/// A shape as text: "[64, 1, 8, 8]".
std::string toString(const Shape &shape);
/// The product of the dimensions and `width`; null if a dimension is negative or the product exceeds 2^62.
std::optional<int64_t> byteCount(const Shape &shape, int64_t width);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_DATATYPE_H
