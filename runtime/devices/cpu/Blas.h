//===- Blas.h - OpenBLAS on the threads of a context ------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CPU_BLAS_H
#define DIVISI_RUNTIME_DEVICES_CPU_BLAS_H

#include "runtime/core/Context.h"

#include <cblas.h>

namespace divisi::runtime {

/// Tells OpenBLAS once how many threads it has outside of parallel regions. Within one it stays on the calling thread.
/// Throws std::runtime_error where it would find too little memory.
void prepareBlas(DivisiContext *context);

/// What divisi_gemm does on this processor. Throws std::runtime_error.
void multiplyByBlas(DivisiContext *context, const DivisiGemm &g, void *const *buffers);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DEVICES_CPU_BLAS_H
