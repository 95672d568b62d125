//===- Reduce.h - element by element ----------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_REDUCE_H
#define DIVISI_RUNTIME_COMM_REDUCE_H

#include "divisi/abi.h"

namespace divisi::runtime {

/// out[i] = a[i] (op) b[i] for i < count; `out` may be one of the operands. 16-bit floats are combined as fp32 and
/// rounded. A NaN operand gives NaN; integers wrap around.
void combine(void *out, const void *a, const void *b, int64_t count, int64_t type, int64_t reduction);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_REDUCE_H
