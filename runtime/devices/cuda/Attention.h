//===- Attention.h - attention by cuDNN -------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CUDA_ATTENTION_H
#define DIVISI_RUNTIME_DEVICES_CUDA_ATTENTION_H

#include "divisi/abi.h"
#include "runtime/core/Accelerator.h"
#include "runtime/devices/cuda/DnnGraph.h"
#include "runtime/devices/cuda/Memory.h"
#include "runtime/devices/cuda/PlansByValue.h"

#include <array>
#include <memory>
#include <optional>

namespace divisi::runtime::cuda {

/// cuDNN's plan for attention or its gradient, with sums in a fixed order. Its tensors in memory are DivisiAttention's
/// buffers without the workspace; the gradient also has one F32 tensor [batch, heads, queries, 1] for itself. Throws
/// std::runtime_error if cuDNN has no plan; elements must have 16 bits, and the depth must be a multiple of 8.
std::unique_ptr<GraphPlan> planAttention(const GraphFunctions &dnn, AttentionKind kind, const DivisiAttention &params,
                                         const PlanTarget &target);

/// Attention on a stream. Calls with equal parameters have one plan, made at the first. The plan's own tensor is at the
/// beginning of the workspace. According to measurements (cuDNN 9.19 and 9.28) these bytes are enough for the workspace
/// at any address: 1024, and for a gradient additionally 4 batch heads queries + 2 batch heads roundUp(queries, 64)
/// roundUp(keys, 128).
class Attention {
public:
  /// Throws std::runtime_error if cuDNN is missing or too old.
  Attention(const Driver &driver, Stream stream);
  ~Attention();
  void compute(AttentionKind kind, const DivisiAttention &params, void *const *buffers);

private:
  struct Plan {
    std::unique_ptr<GraphPlan> graph;
    size_t ownBytes = 0;             ///< at the beginning of the workspace
    std::optional<Memory> workspace; ///< if that of the call may be too small
  };
  Plan &plan(AttentionKind kind, const DivisiAttention &params);

  const Driver &driver;
  void *handle = nullptr;
  GraphFunctions dnn;
  std::array<PlansByValue<DivisiAttention, Plan>, 2> plans; ///< by AttentionKind
};

} // namespace divisi::runtime::cuda

#endif // DIVISI_RUNTIME_DEVICES_CUDA_ATTENTION_H
