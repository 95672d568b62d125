// As much of a driver as the real cuDNN needs for planning without a GPU: a libcuda.so.1 without devices that does
// nothing. NVRTC needs nothing else when cuInit fails.
#include <cstdint>
#include <cstring>

#define API extern "C" __attribute__((visibility("default"))) int

namespace {
constexpr int success = 0, noDevice = 100;
int object; // returned for every requested object
} // namespace

API cuInit(unsigned) { return noDevice; }
API cuDriverGetVersion(int *version) {
  *version = 13000;
  return success;
}
API cuDeviceGetCount(int *count) {
  *count = 0;
  return success;
}
API cuCtxGetCurrent(void **context) {
  *context = nullptr;
  return success;
}
API cuLibraryLoadData(void **library) {
  *library = &object;
  return success;
}
API cuLibraryGetKernel(void **kernel) {
  *kernel = &object;
  return success;
}
API cuKernelGetFunction(void **function) {
  *function = &object;
  return success;
}
API cuModuleLoadData(void **module) {
  *module = &object;
  return success;
}
API cuModuleGetFunction(void **function) {
  *function = &object;
  return success;
}
API cuKernelGetAttribute(int *value) {
  *value = 0;
  return success;
}

// Functions that are looked up but not called.
#define UNUSED(name)                                                                                                   \
  API name() { return noDevice; }
UNUSED(cuCtxGetLimit)
UNUSED(cuCtxPopCurrent)
UNUSED(cuCtxPushCurrent)
UNUSED(cuDeviceGet)
UNUSED(cuGetErrorName)
UNUSED(cuGetErrorString)
UNUSED(cuKernelSetAttribute)
UNUSED(cuLaunchCooperativeKernel)
UNUSED(cuLaunchKernel)
UNUSED(cuLaunchKernelEx)
UNUSED(cuLibraryLoadFromFile)
UNUSED(cuLibraryUnload)
UNUSED(cuLinkAddData)
UNUSED(cuLinkComplete)
UNUSED(cuLinkCreate)
UNUSED(cuLinkDestroy)
UNUSED(cuModuleUnload)
UNUSED(cuOccupancyMaxPotentialClusterSize)
UNUSED(cuStreamGetCtx)
UNUSED(cuTensorMapEncodeIm2col)
UNUSED(cuTensorMapEncodeTiled)

API cuGetProcAddress_v2(const char *name, void **function, int, uint64_t, int *status) {
  *function = !std::strcmp(name, "cuGetProcAddress")     ? (void *)cuGetProcAddress_v2
              : !std::strcmp(name, "cuDriverGetVersion") ? (void *)cuDriverGetVersion
              : !std::strcmp(name, "cuDeviceGetCount")   ? (void *)cuDeviceGetCount
              : !std::strcmp(name, "cuCtxGetCurrent")    ? (void *)cuCtxGetCurrent
                                                         : (void *)cuStreamGetCtx;
  if (status)
    *status = success;
  return success;
}
