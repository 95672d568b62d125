#include "runtime/devices/cuda/NcclFunctions.h"
#include "runtime/core/Status.h"
#include "runtime/devices/cuda/Library.h"

using namespace divisi::runtime;
using namespace divisi::runtime::cuda;

NcclFunctions::NcclFunctions() {
  void *library = openLibrary({"libnccl.so.2", "libnccl.so"}, "NCCL").handle;
#define DIVISI_NCCL_BIND(name, symbol, ...) bind(library, symbol, name);
  DIVISI_NCCL(DIVISI_NCCL_BIND)
#undef DIVISI_NCCL_BIND
  bind(library, "ncclGetErrorString", errorText);
  bind(library, "ncclGetLastError", lastError);
}

void NcclFunctions::check(int code, const std::string &what) const {
  if (code == 0 || code == ncclInProgress)
    return;
  const char *text = errorText(code), *more = lastError(nullptr);
  throw std::runtime_error(
      concat("NCCL cannot ", what, ": ", text ? text : "error", more && *more ? ": " : "", more ? more : ""));
}
