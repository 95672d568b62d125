//===- RunProgram.h - the main function, callable ---------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_RUNPROGRAM_H
#define DIVISI_RUNTIME_MAIN_RUNPROGRAM_H

#include "divisi/abi.h"
#include "runtime/comm/Transport.h"

/// Makes the ranks of a program for many devices known to each other, or says in `error` why not. The library that has
/// it (libdivisi_mpi.a) is linked only into such programs: elsewhere its address is null.
extern "C" divisi::runtime::Transport *divisi_transport_create(divisi::runtime::Status *error) __attribute__((weak));

namespace divisi::runtime {

/// All that a generated program does. Exit code: 0 success, 1 failure, 2 wrong usage, 129, 130 or 143 stopped by a signal.
int runProgram(const DivisiProgram &program, int argc, const char *const *argv);
/// The same as one rank of many; `ranks` may be null. Errors that all ranks know are printed by rank 0 alone.
int runProgram(const DivisiProgram &program, int argc, const char *const *argv, Transport *ranks);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_RUNPROGRAM_H
