#include "runtime/devices/cuda/Driver.h"
#include "runtime/devices/cuda/Library.h"

using namespace divisi::runtime;

cuda::Driver::Driver() {
  void *library = openLibrary({"libcuda.so.1"}, "the NVIDIA driver");
#define DIVISI_CUDA_BIND(name, symbol, ...) bind(library, symbol, name);
  DIVISI_CUDA_DRIVER(DIVISI_CUDA_BIND)
#undef DIVISI_CUDA_BIND
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
