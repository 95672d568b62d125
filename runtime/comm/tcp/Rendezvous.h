//===- Rendezvous.h - processes find each other by TCP ----------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_TCP_RENDEZVOUS_H
#define DIVISI_RUNTIME_COMM_TCP_RENDEZVOUS_H

#include "runtime/comm/tcp/Secret.h"
#include "runtime/comm/tcp/Socket.h"

#include <optional>
#include <vector>

namespace divisi::runtime {

/// Which rank this process is, and where rank 0 waits for the others.
struct Rendezvous {
  int rank = 0, size = 1;
  std::string address = "127.0.0.1";
  int port = 0;
  double patience = 300;     ///< seconds until the others must have come
  bool severalHosts = false; ///< the launcher says so

  /// From RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; nothing unless all of them are set, and not a launcher of MPI
  /// started this process (torchrun, which it may have started, names its run in TORCHELASTIC_RUN_ID). Where a launcher
  /// keeps MASTER_PORT for itself (TORCHELASTIC_USE_AGENT_STORE) it is the next one; LOCAL_WORLD_SIZE says whether all
  /// ranks are on one host.
  static Result<std::optional<Rendezvous>> fromEnvironment();
};

/// Connections to all ranks; none to this one itself.
struct Connections {
  std::vector<Socket> peers;
  int onHost = 1; ///< ranks whose host has the same name
  int local = 0;  ///< this rank's number among them
};

/// Waits until all ranks have come. Whoever does not know the secret is left alone and changes nothing.
Result<Connections> connectRanks(const Rendezvous &where, const Secret &secret);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_TCP_RENDEZVOUS_H
