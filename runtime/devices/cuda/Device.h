//===- Device.h - one NVIDIA GPU --------------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CUDA_DEVICE_H
#define DIVISI_RUNTIME_DEVICES_CUDA_DEVICE_H

#include "runtime/core/Accelerator.h"
#include "runtime/core/Status.h"

#include <memory>

namespace divisi::runtime::cuda {

/// Opens a GPU with the program's kernels, constants, and an arena of zeros in its memory. `local` numbers the ranks of
/// this host, which take GPUs in turn. Fails with what is missing: the driver, a GPU, code for it, memory.
Result<std::unique_ptr<Accelerator>> open(const DivisiProgram &program, uint64_t arenaBytes, int local);

} // namespace divisi::runtime::cuda

#endif // DIVISI_RUNTIME_DEVICES_CUDA_DEVICE_H
