//===- Convert.h - conversion of element types ------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CPU_CONVERT_H
#define DIVISI_RUNTIME_DEVICES_CPU_CONVERT_H

#include "runtime/core/DataType.h"

namespace divisi::runtime {

/// Converts `count` elements of `type` (F32, BF16 or F16) to floats.
void convertToFloat(const void *from, int64_t type, float *to, int64_t count);
/// The inverse conversion, rounded to nearest even.
void convertFromFloat(const float *from, void *to, int64_t type, int64_t count);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DEVICES_CPU_CONVERT_H
