//===- Gpus.h - GPUs that need not be present -------------------*- C++ -*-===//
#ifndef DIVISI_TEST_GPU_PLANNING_GPUS_H
#define DIVISI_TEST_GPU_PLANNING_GPUS_H

#include "runtime/core/Status.h"
#include "runtime/devices/cuda/DnnBackend.h"

namespace divisi::test {

struct Gpu {
  int architecture, processors, sharedBytes, clock, memoryClock, cacheBytes;
  const char *memory, *name;
};
inline constexpr Gpu gpus[] = {
    {80, 108, 166912, 1410000, 1593000, 41943040, "85899345920", "NVIDIA A100-SXM4-80GB"},
    {89, 142, 101376, 2520000, 9001000, 100663296, "47810936832", "NVIDIA L40S"},
    {90, 132, 232448, 1980000, 3201000, 62914560, "150754820096", "NVIDIA H200"},
    {100, 148, 232448, 1965000, 3996000, 132644864, "191503400960", "NVIDIA B200"},
};

/// The device properties that cuDNN requests.
inline runtime::cuda::Descriptor describe(const runtime::cuda::GraphFunctions &dnn, const Gpu &gpu) {
  constexpr int deviceObject = 38, deviceText = 2702, textType = 24; // cudnn_graph.h
  std::string text =
      runtime::concat(R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)",
             R"("multiProcessorCount":)", gpu.processors, R"(,"smCountOrigin":0,"warpSize":32,)",
             R"("maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":)", gpu.sharedBytes,
             R"(,"reservedSharedMemoryPerBlock":1024,"oversizedSharedMemoryPerBlock":0,"maxRegistersPerSM":65536,)",
             R"("maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,)",
             R"("supportCoopLaunch":1,"totalGlobalMem":)", gpu.memory, R"(,"smClockRateKHz":)", gpu.clock,
             R"(,"memClockRateKHz":)", gpu.memoryClock, R"(,"memoryBusWidth":5120,"l2CacheSize":)", gpu.cacheBytes,
             R"(,"cudaDeviceId":0,"deviceVer":)", gpu.architecture * 10, R"(,"driverVer":13000,"deviceName":")",
             gpu.name, R"("})");
  runtime::cuda::Descriptor device(dnn, deviceObject);
  device.set(deviceText, textType, static_cast<int64_t>(text.size()) + 1, text.c_str());
  device.finish("describe a GPU");
  return device;
}

} // namespace divisi::test

#endif // DIVISI_TEST_GPU_PLANNING_GPUS_H
