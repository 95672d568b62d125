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
/// threads share is declared as globals of the module that the builder is in.
CudaKernel emitCudaKernel(mlir::OpBuilder &builder, exec::KernelOp kernel, llvm::StringRef name,
                          llvm::ArrayRef<int64_t> buffers);
/// The same for kernels that are launched at once (BatchKernels.h), one after the other in their arguments and blocks.
CudaKernel emitCudaBatch(mlir::OpBuilder &builder, llvm::ArrayRef<exec::KernelOp> kernels, llvm::StringRef name,
                         llvm::ArrayRef<llvm::SmallVector<int64_t>> buffers);

} // namespace divisi::codegen
