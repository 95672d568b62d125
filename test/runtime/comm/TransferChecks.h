//===- TransferChecks.h - transfers that every transport must make -*- C++ -*-===//
#ifndef DIVISI_TEST_RUNTIME_COMM_TRANSFERCHECKS_H
#define DIVISI_TEST_RUNTIME_COMM_TRANSFERCHECKS_H

#include "runtime/comm/Communicator.h"

namespace divisi::test {

/// Transfers between all ranks as stages and from each to itself: out of order, many in flight, overlapped with
/// collectives and messages of hosts. All ranks call it. Returns a line for each mistake.
std::vector<std::string> checkTransfers(runtime::Transport &transport);

} // namespace divisi::test

#endif // DIVISI_TEST_RUNTIME_COMM_TRANSFERCHECKS_H
