//===- Device.h - one NVIDIA GPU --------------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CUDA_DEVICE_H
#define DIVISI_RUNTIME_DEVICES_CUDA_DEVICE_H

#include "runtime/core/Accelerator.h"
#include "runtime/core/Status.h"

#include <memory>

/// Opens a GPU with the program's kernels, constants, and an arena of zeros in its memory. `local` numbers the ranks of
/// this host, which take GPUs in turn. Fails with what is missing: the driver, a GPU, code for it; memory, where one is
/// `found`.
/// The library that has it (libdivisi_cuda.a) is linked only into programs with code for GPUs: elsewhere its address is
/// null.
extern "C" divisi::runtime::Accelerator *divisi_cuda_open(const DivisiProgram &program, uint64_t arenaBytes, int local,
                                                          bool *found, divisi::runtime::Status *error)
    __attribute__((weak));

#endif // DIVISI_RUNTIME_DEVICES_CUDA_DEVICE_H
