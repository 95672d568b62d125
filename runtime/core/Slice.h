//===- Slice.h - a rank's piece of a tensor ---------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_SLICE_H
#define DIVISI_RUNTIME_CORE_SLICE_H

#include "runtime/core/DataType.h"

namespace divisi::runtime {

/// The box [start, start + local) of a tensor of shape `global`; all three have the same rank.
struct Slice {
  Shape global, local, start;

  /// The number of elements of the box.
  int64_t elements() const {
    int64_t product = 1;
    for (int64_t size : local)
      product *= size;
    return product;
  }
  /// Where element `i` of the box lies in the whole tensor.
  int64_t globalIndex(int64_t i) const {
    int64_t result = 0, stride = 1;
    for (size_t d = local.size(); d-- > 0; stride *= global[d], i /= local[d])
      result += (start[d] + i % local[d]) * stride;
    return result;
  }
  /// Calls body(index in the whole, index in the box, count) for each run of elements that is contiguous in both.
  template <typename Body> void forEachRun(const Body &body) const {
    int64_t count = elements(), run = 1;
    if (count == 0)
      return;
    for (size_t d = local.size(); d-- > 0;) {
      run *= local[d];
      if (local[d] != global[d])
        break;
    }
    for (int64_t at = 0; at < count; at += run)
      body(globalIndex(at), at, run);
  }
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_SLICE_H
