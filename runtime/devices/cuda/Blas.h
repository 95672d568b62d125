//===- Blas.h - GEMMs by cuBLASLt -------------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CUDA_BLAS_H
#define DIVISI_RUNTIME_DEVICES_CUDA_BLAS_H

#include "divisi/abi.h"
#include "runtime/devices/cuda/Memory.h"

#include <map>
#include <memory>

namespace divisi::runtime::cuda {

/// GEMMs on a stream. The algorithm of each parameter block is chosen at its first use.
class Blas {
public:
  /// Throws std::runtime_error if cuBLASLt is missing.
  explicit Blas(Stream stream);
  ~Blas();
  void gemm(const DivisiGemm &params, void *const *buffers);
  void gemmEpilogue(const DivisiGemmEpilogue &params, void *const *buffers);

private:
  struct Functions;
  struct Plan;
  /// Chooses the algorithm of a described GEMM, with or without an epilogue.
  void choose(Plan &plan) const;

  Stream stream;
  std::unique_ptr<Functions> lt;
  void *handle = nullptr;
  std::map<const void *, std::unique_ptr<Plan>> plans; // by parameter block
};

} // namespace divisi::runtime::cuda

#endif // DIVISI_RUNTIME_DEVICES_CUDA_BLAS_H
