//===- Device.h - one NVIDIA GPU --------------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CUDA_DEVICE_H
#define DIVISI_RUNTIME_DEVICES_CUDA_DEVICE_H

#include "runtime/core/Accelerator.h"
#include "runtime/core/Status.h"

#include <memory>

/// Which GPU a rank uses, and for what else it leaves memory: communicators, and the inputs of the next batch.
struct GpuPlace {
  int local = 0; ///< this rank's number on the host; ranks take the host's GPUs in turn
  size_t communicators = 0;
  uint64_t inputBytes = 0;
};

/// Opens a GPU with the program's kernels and constants, and a zero arena in its memory. Fails if there is no driver, no
/// GPU or no code for it, or, when one was `found`, too little memory. The library of this function (libdivisi_cuda.a) is linked only into programs with
/// code for GPUs; in others its address is null.
extern "C" divisi::runtime::Accelerator *divisi_cuda_open(const DivisiProgram &program, uint64_t arenaBytes,
                                                          const GpuPlace &where, bool *found, divisi::runtime::Status *error)
    __attribute__((weak));

/// Appends lines with the versions of the driver and of the libraries for GPUs, or what is wrong with them. Linked like
/// divisi_cuda_open.
extern "C" void divisi_cuda_describe(std::string *text) __attribute__((weak));

#endif // DIVISI_RUNTIME_DEVICES_CUDA_DEVICE_H
