//===- Dnn.h - convolution by cuDNN -----------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CUDA_DNN_H
#define DIVISI_RUNTIME_DEVICES_CUDA_DNN_H

#include "divisi/abi.h"
#include "runtime/core/Accelerator.h"
#include "runtime/devices/cuda/Memory.h"
#include "runtime/devices/cuda/PlansByValue.h"

#include <array>
#include <memory>

namespace divisi::runtime::cuda {

/// Convolutions on a stream. Calls with equal parameters have one algorithm, which is chosen at the first of them;
/// algorithms with sums in a fixed order are preferred.
class Dnn {
public:
  /// Throws std::runtime_error if cuDNN is missing.
  Dnn(const Driver &driver, Stream stream);
  ~Dnn();
  /// Whether cuDNN supports this convolution: padding must be equal on both sides and not negative.
  static bool supports(const DivisiConv &conv);
  void conv(ConvKind kind, const DivisiConv &params, void *const *buffers);

private:
  struct Functions;
  struct Plan;
  std::unique_ptr<Plan> plan(ConvKind kind, const DivisiConv &conv);
  static void check(int code, const char *what);

  const Driver &driver;
  void *handle = nullptr;
  std::unique_ptr<Functions> dnn;
  std::array<PlansByValue<DivisiConv, std::unique_ptr<Plan>>, 3> plans; ///< by ConvKind
};

} // namespace divisi::runtime::cuda

#endif // DIVISI_RUNTIME_DEVICES_CUDA_DNN_H
