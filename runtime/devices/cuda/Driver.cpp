#include "runtime/devices/cuda/Driver.h"
#include "runtime/devices/cuda/Library.h"

#include <cstdlib>
#include <dlfcn.h>

using namespace divisi::runtime;

cuda::Driver::Driver() {
  // Work of more streams than there are queues waits for unrelated work before it in the same queue: with the default of
  // eight, a message that waits for its receiver could block the computation which that receiver waits for.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  void *library = openLibrary({"libcuda.so.1"}, "the NVIDIA driver").handle;
#define DIVISI_CUDA_BIND(name, symbol, ...) bind(library, symbol, name);
  DIVISI_CUDA_DRIVER(DIVISI_CUDA_BIND)
#undef DIVISI_CUDA_BIND
  loadFunction = reinterpret_cast<int (*)(Function)>(dlsym(library, "cuFuncLoad"));
}

void cuda::Driver::check(int code, const char *what) const {
  if (code == 0)
    return;
  const char *name = nullptr, *text = nullptr;
  errorName(code, &name);
  errorText(code, &text);
  throw std::runtime_error(
      concat("cannot ", what, ": ", name ? name : "error", " (", text ? text : std::to_string(code), ")"));
}
