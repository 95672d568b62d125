//===- Dnn.h - convolution by cuDNN -----------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CUDA_DNN_H
#define DIVISI_RUNTIME_DEVICES_CUDA_DNN_H

#include "divisi/abi.h"
#include "runtime/core/Accelerator.h"
#include "runtime/devices/cuda/DnnGraph.h"
#include "runtime/devices/cuda/Memory.h"
#include "runtime/devices/cuda/PlansByValue.h"

#include <array>
#include <memory>
#include <optional>

namespace divisi::runtime::cuda {

/// cuDNN's plan for a convolution or one of its gradients, whose sums are in a fixed order if there is an engine for
/// that. Its tensors in memory are x, w and y. Throws std::runtime_error if cuDNN has no plan.
std::unique_ptr<GraphPlan> planConvolution(const GraphFunctions &dnn, ConvKind kind, const DivisiConv &params,
                                           const PlanTarget &target);

/// Convolutions on a stream. Calls with equal parameters have one plan, made at the first.
class Dnn {
public:
  /// Throws std::runtime_error if cuDNN is missing or too old.
  Dnn(const Driver &driver, Stream stream);
  ~Dnn();
  /// Whether cuDNN supports this convolution: padding must not be negative.
  static bool supports(const DivisiConv &conv);
  void conv(ConvKind kind, const DivisiConv &params, void *const *buffers);

private:
  struct Plan {
    std::unique_ptr<GraphPlan> graph;
    std::optional<Memory> workspace; ///< if that of the call is too small
  };

  const Driver &driver;
  void *handle = nullptr;
  GraphFunctions dnn;
  std::array<PlansByValue<DivisiConv, Plan>, 3> plans; ///< by ConvKind
};

} // namespace divisi::runtime::cuda

#endif // DIVISI_RUNTIME_DEVICES_CUDA_DNN_H
