#pragma once
#include "codegen/Emit/Program.h"
#include "runtime/core/Accelerator.h"
#include "runtime/core/Context.h"

#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <memory>

namespace llvm::orc {
class LLJIT;
}

namespace divisi::test {

/// Runs kernels for GPUs on this processor, thread by thread, to compare their results without a GPU. Threads of a
/// block switch at their synchronisations; a block that deadlocks is an error. Library calls are those of the CPU.
/// Buffers are addresses of this process.
class GpuEmulator : public runtime::Accelerator {
public:
  explicit GpuEmulator(const codegen::CudaKernels &kernels);
  ~GpuEmulator() override;

  std::string name() const override { return "emulator"; }
  char *arena() const override { return nullptr; }
  const char *constants() const override { return nullptr; }
  void upload(uint64_t, const char *, size_t) override {}
  void download(uint64_t, char *, size_t) override {}
  void wait() override {}
  void launch(const DivisiKernel &kernel, void *const *buffers) override;
  void copy(const DivisiCopy &params, void *const *buffers) override { divisi_copy(&cpu, &params, buffers); }
  void gemm(const DivisiGemm &params, void *const *buffers) override { divisi_gemm(&cpu, &params, buffers); }
  void gemmEpilogue(const DivisiGemmEpilogue &params, void *const *buffers) override {
    divisi_gemm_epilogue(&cpu, &params, buffers);
  }
  void conv(runtime::ConvKind kind, const DivisiConv &params, void *const *buffers) override;
  void attention(runtime::AttentionKind kind, const DivisiAttention &params, void *const *buffers) override;
  void topK(const DivisiTopK &params, void *const *buffers) override { divisi_top_k(&cpu, &params, buffers); }

  int64_t launches = 0; ///< so far

private:
  DivisiContext cpu{1};
  std::map<std::string, codegen::Launchable> launchables;
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

} // namespace divisi::test
