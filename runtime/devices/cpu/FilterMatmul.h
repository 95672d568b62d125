//===- FilterMatmul.h - gradients of filters as matmuls ---------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CPU_FILTERMATMUL_H
#define DIVISI_RUNTIME_DEVICES_CPU_FILTERMATMUL_H

#include "runtime/devices/cpu/MatmulPlan.h"

namespace divisi::runtime {

/// The gradient of a convolution's filters, dw = dy^T x', where a row of x' has what the filter meets at one output point: x itself for
/// filters of one point, else copies of x (im2col). On processors with units for bf16 this is up to four times as fast as oneDNN's
/// convolutions, which add up whole filters for few points.
class FilterMatmul {
public:
  /// Null if a convolution is faster, which is so for filters of several points where there are many output points, or if there is no plan
  /// for the matmul.
  static std::unique_ptr<FilterMatmul> create(const DivisiConv &conv);

  size_t scratchBytes() const { return bytes; }
  /// Runs it on x, dy and dw. `scratch` has the alignment Scratch::alignment.
  void run(char *scratch, const std::array<void *, 3> &operands, int threads);

private:
  explicit FilterMatmul(const DivisiConv &conv);

  bool isCopied() const;
  void copyRows(const uint16_t *x, uint16_t *rows, int threads) const;
  void arrange(const uint16_t *sums, uint16_t *filters, int threads) const;

  DivisiConv conv; ///< with three spatial dimensions
  int64_t points, taps;
  std::unique_ptr<MatmulPlan> plan;
  size_t sumsAt = 0, planAt = 0, bytes = 0;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DEVICES_CPU_FILTERMATMUL_H
