// A cuDNN for a fake GPU: its handles. Graphs are in DnnBackend.cpp.
#include "test/gpu/fake/DnnGraph.h"

using Handle = fake::DnnHandle;

namespace {
constexpr int success = 0;
} // namespace

#define API extern "C" __attribute__((visibility("default"))) int

API cudnnCreate(Handle **handle) {
  *handle = new Handle;
  return success;
}
API cudnnDestroy(Handle *handle) {
  delete handle;
  return success;
}
API cudnnSetStream(Handle *handle, void *stream) {
  handle->stream = stream;
  return success;
}
