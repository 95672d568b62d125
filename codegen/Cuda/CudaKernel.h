#pragma once
#include "dialects/Exec/Exec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace divisi::codegen {

/// A kernel as a function of one GPU thread, over buffers.
struct CudaKernel {
  mlir::func::FuncOp function;        // (memref<..>..)
  llvm::SmallVector<unsigned> values; // as in EmittedKernel
  int64_t blocks = 1, threads = 1;
};

/// Emits the code of a thread. Its piece of the work follows from its indices (Mapping.h). Memory that threads share is
/// declared as globals of the builder's module. Several kernels are one launch (BatchKernels.h): their arguments and
/// blocks follow each other.
CudaKernel emitCudaKernel(mlir::OpBuilder &builder, llvm::ArrayRef<exec::KernelOp> kernels, llvm::StringRef name,
                          llvm::ArrayRef<llvm::SmallVector<int64_t>> buffers);

} // namespace divisi::codegen
