//===- Gemm.cpp - GEMMs of a GPU, with and without an epilogue ------------===//
#include "runtime/devices/cpu/GemmEpilogue.h"
#include "runtime/devices/cuda/Gpu.h"

#include <iostream>

using namespace divisi::runtime;
using namespace divisi::runtime::cuda;

Blas &Gpu::products() {
  if (!blas)
    blas.emplace(stream);
  return *blas;
}

void Gpu::gemm(const DivisiGemm &params, void *const *buffers) {
  if (params.k == 0 && !params.accumulate && params.batch0 * params.batch1 * params.m * params.n > 0)
    throw std::runtime_error("a product without a common dimension");
  products().gemm(params, buffers);
}

void Gpu::gemm_epilogue(const DivisiGemmEpilogue &params, void *const *buffers) {
  if (params.k == 0)
    throw std::runtime_error("a product without a common dimension");
  if (!products().gemmEpilogue(params, buffers))
    epilogueByParts(params, buffers);
}

void Gpu::epilogueByParts(const DivisiGemmEpilogue &p, void *const *buffers) {
  if (!std::exchange(warned, true))
    std::cerr << concat("warning: cuBLASLt has no algorithm for the epilogue of a matmul of ", p.m, " x ", p.k,
                        " and ", p.k, " x ", p.n,
                        ": this processor computes the epilogues of such matmuls, slowly (compile with --no-epilogues)\n")
              << std::flush;
  size_t inputs = p.has_operand ? 3 : 2, tensors = inputs + (p.has_second ? 2 : 1);
  void *const product[] = {buffers[0], buffers[1], buffers[inputs], p.workspace > 0 ? buffers[tensors] : nullptr};
  products().gemm(productOf(p), product);
  onThisProcessor(buffers, sizesAfterProduct(p), inputs + 1, inputs,
                  [&](DivisiContext *host, void *const *memory) { finishEpilogue(p, memory, host->threads); });
}
