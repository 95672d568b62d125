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
  void placeInputs(const std::vector<Place> &) override {}
  const std::vector<char *> &awaitInputs() override { return inputs; }
  void sendInputs() override {}
  void takeInputs() override {}
#define DIVISI_METHOD(name, Block)                                                                                     \
  void name(const Block &params, void *const *buffers) override { divisi_##name(&cpu, &params, buffers); }
  DIVISI_CALLS(DIVISI_METHOD)
#undef DIVISI_METHOD

  int64_t launches = 0; ///< so far

protected:
  std::map<std::string, codegen::Launchable> launchables;

private:
  DivisiContext cpu{1};
  const std::vector<char *> inputs;
};

} // namespace divisi::test
