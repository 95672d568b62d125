//===- Nvtx.h - ranges for Nsight Systems -----------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_NVTX_H
#define DIVISI_RUNTIME_CORE_NVTX_H

#include "runtime/core/Status.h"

/// The program's side of NVTX 3, by which Nsight Systems shows the ranges of a program.
namespace divisi::runtime::nvtx {

/// Opens the tool's library, which NVTX_INJECTION64_PATH names, for the lifetime of the process. Returns whether there
/// is one; fails if it cannot be used. Later calls return the result of the first.
Result<bool> attach();

/// Begins a range of this thread inside of those that are open, if there is a tool.
void push(const char *name);
/// Ends the innermost range.
void pop();

} // namespace divisi::runtime::nvtx

#endif // DIVISI_RUNTIME_CORE_NVTX_H
