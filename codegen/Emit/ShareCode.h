#pragma once
#include "mlir/IR/BuiltinOps.h"

#include "llvm/ADT/StringMap.h"

namespace divisi::codegen {

/// What a kernel runs: a function, and what is passed to it after the bounds of the part.
struct SharedCode {
  std::string function;
  llvm::SmallVector<int64_t> bounds;
};

/// Of simplified kernels (functions of buffers.., begin, end) that are equal but for the bounds of loops that run long,
/// or once (`extents`: of the outermost loop, by name), one is left, to which the bounds are passed. Kernels without a
/// like keep their constants. Returns by name what each kernel runs.
llvm::StringMap<SharedCode> shareCode(mlir::ModuleOp kernels, const llvm::StringMap<int64_t> &extents);

} // namespace divisi::codegen
