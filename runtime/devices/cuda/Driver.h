//===- Driver.h - the CUDA driver's functions -------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CUDA_DRIVER_H
#define DIVISI_RUNTIME_DEVICES_CUDA_DRIVER_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace divisi::runtime::cuda {

// The driver's types with the layouts of its ABI: no CUDA header is needed to build.
using Address = unsigned long long; // CUdeviceptr
using Stream = struct StreamTag *;
using Module = struct ModuleTag *;
using Function = struct FunctionTag *;
using DriverContext = struct ContextTag *;
using Event = struct EventTag *;
using Graph = struct GraphTag *;
using GraphExec = struct GraphExecTag *;

// Values of the driver's enumerations (cuda.h).
constexpr int notReady = 600;
constexpr unsigned nonBlocking = 1; // of a stream: beside the default one
constexpr unsigned untimed = 2;     // of an event
constexpr int captureThreadLocal = 1;
constexpr int capabilityMajor = 75, capabilityMinor = 76; // attributes of a device

/// CUDA_MEMCPY2D: copies rows of equal length.
struct CopyRows {
  struct Side {
    size_t x, y;
    int memory; ///< 2: of the GPU
    const void *host;
    Address address;
    void *array;
    size_t pitch;
  };
  Side from, to;
  size_t bytes, rows;

  static CopyRows make(const void *from, size_t fromPitch, void *to, size_t toPitch, size_t bytes, size_t rows) {
    auto side = [](const void *at, size_t pitch) {
      return Side{0, 0, 2, nullptr, reinterpret_cast<Address>(at), nullptr, pitch};
    };
    return {side(from, fromPitch), side(to, toPitch), bytes, rows};
  }
};

/// CUuuid.
struct Uuid {
  char bytes[16];
};

/// A function of the driver: its name here, its symbol, and its arguments' types. All return an error code.
#define DIVISI_CUDA_DRIVER(X)                                                                                          \
  X(init, "cuInit", unsigned)                                                                                          \
  X(version, "cuDriverGetVersion", int *)                                                                              \
  X(errorName, "cuGetErrorName", int, const char **)                                                                   \
  X(errorText, "cuGetErrorString", int, const char **)                                                                 \
  X(deviceCount, "cuDeviceGetCount", int *)                                                                            \
  X(device, "cuDeviceGet", int *, int)                                                                                 \
  X(deviceName, "cuDeviceGetName", char *, int, int)                                                                   \
  X(deviceAttribute, "cuDeviceGetAttribute", int *, int, int)                                                          \
  X(deviceUuid, "cuDeviceGetUuid_v2", Uuid *, int)                                                                     \
  X(peerAttribute, "cuDeviceGetP2PAttribute", int *, int, int, int)                                                    \
  X(memoryInfo, "cuMemGetInfo_v2", size_t *, size_t *)                                                                 \
  X(retainContext, "cuDevicePrimaryCtxRetain", DriverContext *, int)                                                   \
  X(setContext, "cuCtxSetCurrent", DriverContext)                                                                      \
  X(allocate, "cuMemAlloc_v2", Address *, size_t)                                                                      \
  X(release, "cuMemFree_v2", Address)                                                                                  \
  X(allocateHost, "cuMemHostAlloc", void **, size_t, unsigned)                                                         \
  X(hostAddress, "cuMemHostGetDevicePointer_v2", Address *, void *, unsigned)                                          \
  X(releaseHost, "cuMemFreeHost", void *)                                                                              \
  X(clear, "cuMemsetD8Async", Address, unsigned char, size_t, Stream)                                                  \
  X(toDevice, "cuMemcpyHtoDAsync_v2", Address, const void *, size_t, Stream)                                           \
  X(toHost, "cuMemcpyDtoHAsync_v2", void *, Address, size_t, Stream)                                                   \
  X(onDevice, "cuMemcpyDtoDAsync_v2", Address, Address, size_t, Stream)                                                \
  X(copyRows, "cuMemcpy2DAsync_v2", const CopyRows *, Stream)                                                          \
  X(fillWords, "cuMemsetD32Async", Address, unsigned, size_t, Stream)                                                  \
  X(createEvent, "cuEventCreate", Event *, unsigned)                                                                   \
  X(destroyEvent, "cuEventDestroy_v2", Event)                                                                          \
  X(elapsed, "cuEventElapsedTime", float *, Event, Event)                                                              \
  X(recordEvent, "cuEventRecord", Event, Stream)                                                                       \
  X(waitForEvent, "cuEventSynchronize", Event)                                                                         \
  X(waitEvent, "cuStreamWaitEvent", Stream, Event, unsigned)                                                           \
  X(createStream, "cuStreamCreate", Stream *, unsigned)                                                                \
  X(destroyStream, "cuStreamDestroy_v2", Stream)                                                                       \
  X(query, "cuStreamQuery", Stream)                                                                                    \
  X(queryEvent, "cuEventQuery", Event)                                                                                 \
  X(synchronize, "cuStreamSynchronize", Stream)                                                                        \
  X(loadModule, "cuModuleLoadDataEx", Module *, const void *, unsigned, const int *, void **)                          \
  X(unloadModule, "cuModuleUnload", Module)                                                                            \
  X(findFunction, "cuModuleGetFunction", Function *, Module, const char *)                                             \
  X(launch, "cuLaunchKernel", Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream,  \
    void **, void **)                                                                                                  \
  X(beginCapture, "cuStreamBeginCapture_v2", Stream, int)                                                              \
  X(endCapture, "cuStreamEndCapture", Stream, Graph *)                                                                 \
  X(instantiate, "cuGraphInstantiateWithFlags", GraphExec *, Graph, unsigned long long)                                \
  X(launchGraph, "cuGraphLaunch", GraphExec, Stream)                                                                   \
  X(destroyGraph, "cuGraphDestroy", Graph)                                                                             \
  X(destroyGraphExec, "cuGraphExecDestroy", GraphExec)

/// libcuda.so.1, which is part of a GPU's driver.
struct Driver {
#define DIVISI_CUDA_MEMBER(name, symbol, ...) int (*name)(__VA_ARGS__) = nullptr;
  DIVISI_CUDA_DRIVER(DIVISI_CUDA_MEMBER)
#undef DIVISI_CUDA_MEMBER
  /// cuFuncLoad, which drivers of CUDA 12.4 and later have; null without.
  int (*loadFunction)(Function) = nullptr;

  /// Asks for 32 queues of a GPU unless the user has set their number, before the driver is initialized. Throws
  /// std::runtime_error if there is no driver.
  Driver();
  /// Throws the message of an error code other than 0 from a call whose purpose was `what`.
  void check(int code, const char *what) const;
};

} // namespace divisi::runtime::cuda

#endif // DIVISI_RUNTIME_DEVICES_CUDA_DRIVER_H
