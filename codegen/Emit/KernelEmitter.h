#pragma once
#include "dialects/Exec/Exec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace divisi::codegen {

/// A kernel as a function over buffers.
struct EmittedKernel {
  mlir::func::FuncOp function;        // (memref<..>.., begin, end)
  llvm::SmallVector<unsigned> values; // for each memref argument: an input i, or number of inputs + output o
  int64_t extent = 0;                 // of the outermost loop
  int64_t grain = 1;                  // least part of the extent that is worth a thread
};

/// Emits a kernel's loops. `buffers` has, for each input and then each output, the number of its buffer; values in one
/// buffer share an argument. Buffers are passed as one-dimensional memrefs.
EmittedKernel emitKernel(mlir::OpBuilder &builder, exec::KernelOp kernel, llvm::StringRef name,
                         llvm::ArrayRef<int64_t> buffers);

} // namespace divisi::codegen
