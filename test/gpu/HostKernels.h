#pragma once

namespace llvm {
class Module;
}

namespace divisi::test {

/// Makes kernels for GPUs functions of this processor, over EmulatedThreads.h: NAME_call(buffers) runs the thread of
/// its turn, and the byte NAME_together says whether threads wait for each other. Throws std::runtime_error for what is
/// not emulated.
void makeHostKernels(llvm::Module &module);

} // namespace divisi::test
