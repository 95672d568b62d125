#pragma once
#include "codegen/Emit/Program.h"
#include "runtime/core/Accelerator.h"
#include "runtime/core/Context.h"

#include <map>
#include <memory>

namespace divisi::test {

/// An emulated GPU whose library calls are those of the CPU. Buffers are addresses of this process.
class CpuLibraries : public runtime::Accelerator {
public:
  explicit CpuLibraries(const codegen::CudaKernels &kernels) {
    for (const codegen::Launchable &launchable : kernels.launchables)
      launchables.emplace(launchable.name, launchable);
  }

  char *arena() const override { return nullptr; }
  const char *constants() const override { return nullptr; }
  void upload(uint64_t, const char *, size_t) override {}
  void download(uint64_t, char *, size_t) override {}
  void wait() override {}
  void copy(const DivisiCopy &params, void *const *buffers) override { divisi_copy(&cpu, &params, buffers); }
  void gemm(const DivisiGemm &params, void *const *buffers) override { divisi_gemm(&cpu, &params, buffers); }
  void gemmEpilogue(const DivisiGemmEpilogue &params, void *const *buffers) override {
    divisi_gemm_epilogue(&cpu, &params, buffers);
  }
  void conv(runtime::ConvKind kind, const DivisiConv &params, void *const *buffers) override {
    using runtime::ConvKind;
    auto *service = kind == ConvKind::Forward     ? divisi_conv_forward
                    : kind == ConvKind::InputGrad ? divisi_conv_input_grad
                                                  : divisi_conv_filter_grad;
    service(&cpu, &params, buffers);
  }
  void attention(runtime::AttentionKind kind, const DivisiAttention &params, void *const *buffers) override {
    auto *service = kind == runtime::AttentionKind::Forward ? divisi_attention : divisi_attention_grad;
    service(&cpu, &params, buffers);
  }
  void topK(const DivisiTopK &params, void *const *buffers) override { divisi_top_k(&cpu, &params, buffers); }

  int64_t launches = 0; ///< so far

protected:
  std::map<std::string, codegen::Launchable> launchables;

private:
  DivisiContext cpu{1};
};

} // namespace divisi::test
