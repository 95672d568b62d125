#pragma once
#include "dialects/Exec/Exec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace divisi::codegen {

/// A kernel as a function of one GPU thread over buffers.
struct CudaKernel {
  mlir::func::FuncOp function;        // (memref<..>..)
  llvm::SmallVector<unsigned> values; // as EmittedKernel has them
  int64_t blocks = 1, threads = 1;
};

/// Emits what a thread does; which piece of the work is its own follows from its indices (Mapping.h). Memory that
/// threads share is declared as globals of the module that the builder is in. A kernel, or some that are launched at
/// once (BatchKernels.h): one after the other in their arguments and blocks.
CudaKernel emitCudaKernel(mlir::OpBuilder &builder, llvm::ArrayRef<exec::KernelOp> kernels, llvm::StringRef name,
                          llvm::ArrayRef<llvm::SmallVector<int64_t>> buffers);

} // namespace divisi::codegen
