#pragma once
#include "test/execute/CpuLibraries.h"

namespace llvm::orc {
class LLJIT;
}

namespace divisi::test {

/// Runs kernels for GPUs on this processor, thread by thread, to compare their results without a GPU. Threads of a
/// block switch at their synchronisations; a block that deadlocks is an error.
class GpuEmulator : public CpuLibraries {
public:
  explicit GpuEmulator(const codegen::CudaKernels &kernels);
  ~GpuEmulator() override;

  std::string name() const override { return "emulator"; }
  void launch(const DivisiKernel &kernel, void *const *buffers) override;

private:
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

} // namespace divisi::test
