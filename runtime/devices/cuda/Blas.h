//===- Blas.h - GEMMs by cuBLASLt -------------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CUDA_BLAS_H
#define DIVISI_RUNTIME_DEVICES_CUDA_BLAS_H

#include "divisi/abi.h"
#include "runtime/devices/cuda/Memory.h"
#include "runtime/devices/cuda/PlansByValue.h"

#include <memory>

namespace divisi::runtime::cuda {

/// GEMMs on a stream. Calls with equal parameters have one algorithm, which is chosen at the first of them.
class Blas {
public:
  /// Throws std::runtime_error if cuBLASLt is missing.
  explicit Blas(Stream stream);
  ~Blas();
  void gemm(const DivisiGemm &params, void *const *buffers);
  /// Returns false, having done nothing, if cuBLASLt has no algorithm with this epilogue.
  [[nodiscard]] bool gemmEpilogue(const DivisiGemmEpilogue &params, void *const *buffers);

private:
  struct Functions;
  struct Plan;
  /// Chooses the algorithm of a described GEMM, with or without an epilogue; returns a status other than 0 if there is
  /// none.
  [[nodiscard]] int choose(Plan &plan) const;

  Stream stream;
  void *handle = nullptr;
  std::unique_ptr<Functions> lt;
  PlansByValue<DivisiGemm, std::unique_ptr<Plan>> plans;
  PlansByValue<DivisiGemmEpilogue, std::unique_ptr<Plan>> epiloguePlans;
};

} // namespace divisi::runtime::cuda

#endif // DIVISI_RUNTIME_DEVICES_CUDA_BLAS_H
