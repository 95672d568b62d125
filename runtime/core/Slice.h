//===- Slice.h - a rank's shard of a tensor ---------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_SLICE_H
#define DIVISI_RUNTIME_CORE_SLICE_H

#include "runtime/core/DataType.h"

#include <algorithm>

namespace divisi::runtime {

/// The slice [start, start + local) of a tensor of shape `global`; all three have the same rank. If the tensor was
/// padded to divide, the slice may extend beyond it: those elements do not belong to the tensor.
struct Slice {
  Shape global, local, start;

  /// The number of elements of the slice, including padding.
  int64_t elements() const {
    int64_t product = 1;
    for (int64_t size : local)
      product *= size;
    return product;
  }
  /// The number of elements of the tensor along dimension `d` in this slice.
  int64_t inside(size_t d) const { return std::clamp<int64_t>(global[d] - start[d], 0, local[d]); }
  /// Calls body(index in the tensor, index in the slice, count) for each run of elements that is contiguous in both.
  template <typename Body> void forEachRun(const Body &body) const {
    int64_t count = 1, run = 1;
    size_t outer = local.size(); // dimensions that are iterated over
    for (bool open = true; open && outer > 0;) {
      run *= inside(--outer);
      open = local[outer] == global[outer];
    }
    for (size_t d = 0; d < outer; ++d)
      count *= inside(d);
    for (int64_t i = 0; run > 0 && i < count; ++i) {
      int64_t there = 0, here = 0, rest = i, globalStride = 1, localStride = 1;
      for (size_t d = local.size(); d-- > 0; globalStride *= global[d], localStride *= local[d]) {
        int64_t at = d < outer ? rest % inside(d) : 0;
        rest = d < outer ? rest / inside(d) : rest;
        there += (start[d] + at) * globalStride;
        here += at * localStride;
      }
      body(there, here, run);
    }
  }
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_SLICE_H
