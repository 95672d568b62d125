#pragma once
#include "step/Block.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace divisi::step {

/// Whether a kernel may compute `result` in the memory of `input`: both are of one type, every operation of the kernel
/// computes each element alone, and none reads the input, or what was computed from it, at another element than it
/// writes. `ops`: those of the kernel, in program order; `isStage`: of these, whether a value is computed in a pass of
/// its own; `rows`: of the kernel.
bool writesOnlyWhereItReads(const Block &block, llvm::ArrayRef<int> ops, llvm::function_ref<bool(int)> isStage, int64_t rows,
                            int result, int input);

} // namespace divisi::step
