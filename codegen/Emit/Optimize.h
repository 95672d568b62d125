#pragma once

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace divisi::codegen {

/// Runs LLVM's own passes, for kernels of any target.
void optimize(llvm::Module &module, llvm::TargetMachine &machine);

} // namespace divisi::codegen
