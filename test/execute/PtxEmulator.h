#pragma once
#include "test/execute/CpuLibraries.h"
#include "test/gpu/ptx/Interpreter.h"

#include "mlir/IR/BuiltinOps.h"

#include <vector>

namespace divisi::test {

/// Interprets the PTX of kernels for GPUs. A kernel may access what its buffers contain, and nothing else.
class PtxEmulator : public CpuLibraries {
public:
  /// Of a module at the level exec, whose first function is run once.
  PtxEmulator(mlir::ModuleOp exec, const codegen::CudaKernels &kernels, const std::string &text);

  std::string name() const override { return "PTX"; }
  void launch(const DivisiKernel &kernel, void *const *buffers) override;

private:
  ptx::Module module;
  std::vector<std::vector<uint64_t>> sizes; ///< for each launch: bytes of the values that the kernels have
};

} // namespace divisi::test
