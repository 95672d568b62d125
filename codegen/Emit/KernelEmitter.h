#pragma once
#include "dialects/Exec/Exec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace divisi::codegen {

/// A kernel as a function over buffers.
struct EmittedKernel {
  mlir::func::FuncOp function;        // (memref<..>.., begin, end)
  llvm::SmallVector<unsigned> values; // for each memref argument: an input i, or number of inputs + output o
  int64_t extent = 0;                 // of the outermost loop
  int64_t grain = 1;                  // smallest piece of it that is worth a thread
};

/// Emits a kernel's loops. `buffers` says, for each input and then each output, which buffer it lies in; two values in
/// one buffer share an argument. Buffers are passed as one-dimensional memrefs.
EmittedKernel emitKernel(mlir::OpBuilder &builder, exec::KernelOp kernel, llvm::StringRef name,
                         llvm::ArrayRef<int64_t> buffers);

} // namespace divisi::codegen
