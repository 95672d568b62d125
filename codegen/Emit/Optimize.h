#pragma once

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace divisi::codegen {

/// Runs LLVM's own passes: O2 for kernels of GPUs, and some of it for those of CPUs, where only sums over few points are
/// unrolled.
void optimize(llvm::Module &module, llvm::TargetMachine &machine, bool forCpu);

} // namespace divisi::codegen
