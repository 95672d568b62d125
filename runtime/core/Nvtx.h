//===- Nvtx.h - ranges that a profiler shows --------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_NVTX_H
#define DIVISI_RUNTIME_CORE_NVTX_H

#include "runtime/core/Status.h"

/// The program's side of NVTX 3, by which Nsight Systems learns what a program calls its parts.
namespace divisi::runtime::nvtx {

/// Opens the tool's library that NVTX_INJECTION64_PATH names, for as long as the process lives. Whether there is one; a
/// failure says why it cannot be used. Once in a process: later calls say what the first one did.
Result<bool> attach();

/// Begins a range of this thread within those that are open, if the tool wants to know.
void push(const char *name);
/// Ends the last one.
void pop();

} // namespace divisi::runtime::nvtx

#endif // DIVISI_RUNTIME_CORE_NVTX_H
