//===- JoinRanks.h - the ranks of a program ---------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_JOINRANKS_H
#define DIVISI_RUNTIME_MAIN_JOINRANKS_H

#include "divisi/abi.h"
#include "runtime/comm/Transport.h"

#include <vector>

namespace divisi::runtime {

/// One rank of a program of the executable; `ranks` is null for a program for one device.
struct Joined {
  const DivisiProgram *program = nullptr;
  std::unique_ptr<Transport> ranks = {};
};

/// Connects the ranks that were started, by the environment's rendezvous, or by MPI if the library with it is linked.
/// Of several programs it takes the one for as many ranks. If there is none it is the first one, whose flags are read
/// before `checkRanks` fails.
Result<Joined> joinRanks(const DivisiProgram &first, int argc, const char *const *argv);

/// Checks that the program that was joined, which is for `devices`, was started as `started` processes.
Status checkRanks(const DivisiProgram &joined, int64_t devices, int64_t started, const char *name);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_JOINRANKS_H
