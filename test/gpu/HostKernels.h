#pragma once
#include "mlir/IR/BuiltinOps.h"

#include <memory>

namespace llvm {
class LLVMContext;
class Module;
} // namespace llvm

namespace divisi::test {

/// Kernels for GPUs, lowered to the LLVM and NVVM dialects, as functions of this processor over EmulatedThreads.h:
/// NAME_call(buffers) runs the current thread, and the byte NAME_together says whether threads wait for each other.
/// Throws std::runtime_error for operations that are not emulated.
std::unique_ptr<llvm::Module> makeHostKernels(mlir::ModuleOp kernels, llvm::LLVMContext &context);

} // namespace divisi::test
