//===- RunProgram.h - the main function -------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_RUNPROGRAM_H
#define DIVISI_RUNTIME_MAIN_RUNPROGRAM_H

#include "divisi/abi.h"
#include "runtime/comm/Transport.h"

/// Connects the ranks of a program for several devices, or sets `error`. The library of this function (libdivisi_mpi.a)
/// is linked only into such programs; in others its address is null.
extern "C" divisi::runtime::Transport *divisi_transport_create(divisi::runtime::Status *error) __attribute__((weak));

namespace divisi::runtime {

/// The whole generated program. Exit code: 0 success, 1 failure, 2 wrong usage, 129, 130 or 143 stopped by a signal.
int runProgram(const DivisiProgram &program, int argc, const char *const *argv);
/// The same as one of several ranks; `ranks` may be null. Errors that all ranks have are printed by rank 0 only.
int runProgram(const DivisiProgram &program, int argc, const char *const *argv, Transport *ranks);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_RUNPROGRAM_H
