// A tool that stands in for Nsight Systems: a library for NVTX_INJECTION64_PATH that logs ranges. Like real tools it
// requests every function that a program may call, and refuses programs that lack some.
#include "test/gpu/fake/Log.h"

#include <cstddef>
#include <cstdint>

namespace {
thread_local int depth = 0;
int push(const char *name) {
  record("push %s", name);
  return depth++;
}
int pop() {
  record("pop");
  return --depth;
}

// The tool's view of nvtx3/nvtxDetail/nvtxTypes.h.
using Function = void (*)();
struct Callbacks {
  size_t bytes;
  int (*functionTable)(int module, Function ***table, unsigned *size);
};
struct Version {
  size_t bytes;
  uint32_t version, reserved;
  void (*setToolVersion)(uint32_t version);
};
constexpr unsigned sizes[] = {0, 16, 9, 15, 7, 16, 7}; // of the modules' tables
} // namespace

extern "C" __attribute__((visibility("default"))) int
InitializeInjectionNvtx2(const void *(*exportTable)(uint32_t table)) {
  auto *callbacks = static_cast<const Callbacks *>(exportTable(1));
  auto *version = static_cast<const Version *>(exportTable(3));
  if (!callbacks || callbacks->bytes != sizeof(Callbacks) || !version || version->bytes != sizeof(Version) ||
      version->version != 3 || exportTable(2))
    return 0;
  version->setToolVersion(3);
  Function **tables[7] = {};
  for (int module = 1; module < 7; ++module) {
    unsigned size = 0;
    if (!callbacks->functionTable(module, &tables[module], &size) || size != sizes[module])
      return 0;
    for (unsigned i = 0; i <= size; ++i)
      if ((tables[module][i] != nullptr) != (i > 0 && i < size))
        return 0;
  }
  *tables[1][9] = reinterpret_cast<Function>(&push);
  *tables[1][11] = reinterpret_cast<Function>(&pop);
  return 1;
}
