#pragma once
#include "mlir/IR/BuiltinOps.h"

#include "llvm/ADT/StringMap.h"

namespace divisi::codegen {

/// What a kernel runs: a function, and the sizes that are passed to it after the bounds of the part.
struct SharedCode {
  std::string function;
  llvm::SmallVector<int64_t> sizes;
};

/// Of simplified kernels (functions of buffers.., begin, end) that are equal but for sizes, one is left, to which those that
/// differ are passed: the bounds of loops that run long, or once (`extents`: of the outermost loop, by name), what is added to
/// indices or multiplied with them, but not the strides of innermost loops, and by what they are divided before long loops.
/// Kernels without a like keep their constants. Returns by name what each kernel runs.
llvm::StringMap<SharedCode> shareCode(mlir::ModuleOp kernels, const llvm::StringMap<int64_t> &extents);

} // namespace divisi::codegen
