#pragma once
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace divisi::codegen {

/// Simplifies kernels for CPUs. A loop nest over contiguous elements becomes one loop.
void addKernelSimplification(mlir::OpPassManager &pm);

/// Lowers kernels from scf, arith, math and memref to the LLVM dialect. Functions of floats become polynomials, which
/// vectorize. Functions without a polynomial are lowered by the pass `functions`; the others call the C library.
void addKernelLowering(mlir::OpPassManager &pm, std::unique_ptr<mlir::Pass> functions = nullptr);

} // namespace divisi::codegen
