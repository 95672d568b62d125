#pragma once

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace divisi::codegen {

/// Runs LLVM's own passes, for kernels of any target. `keepLoops`: only sums over few points are unrolled.
void optimize(llvm::Module &module, llvm::TargetMachine &machine, bool keepLoops);

} // namespace divisi::codegen
