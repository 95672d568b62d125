//===- Blas.h - OpenBLAS on the threads of a context ------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CPU_BLAS_H
#define DIVISI_RUNTIME_DEVICES_CPU_BLAS_H

#include "runtime/core/Context.h"

#include <cblas.h>

namespace divisi::runtime {

/// Tells OpenBLAS once how many threads it may use outside of parallel regions; inside it uses the calling thread.
/// Throws std::runtime_error if there is too little memory for OpenBLAS.
void prepareBlas(DivisiContext *context);

/// Computes divisi_gemm on this processor; `site` is the address of the call's parameter block. Throws
/// std::runtime_error.
void multiplyOnCpu(DivisiContext *context, const DivisiGemm &g, void *const *buffers, const void *site);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DEVICES_CPU_BLAS_H
