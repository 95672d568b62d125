#pragma once
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace divisi::codegen {

/// Kernels from scf, arith, math and memref to the LLVM dialect. Functions of floats become polynomials, which
/// vectorize; what has none goes to `functions`, and what is left is called in the C library.
void addKernelLowering(mlir::OpPassManager &pm, std::unique_ptr<mlir::Pass> functions = nullptr);

} // namespace divisi::codegen
