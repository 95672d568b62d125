#pragma once
#include "mlir/Pass/PassManager.h"

namespace divisi::codegen {

/// Functions of floats become polynomials where there are some; the beginning of every lowering of kernels.
void addMathExpansion(mlir::OpPassManager &pm);

/// Kernels from scf, arith, math and memref to the LLVM dialect. Functions of floats become polynomials, which
/// vectorize; what has none is called in the C library.
void addKernelLowering(mlir::OpPassManager &pm);

} // namespace divisi::codegen
