//===- Rendezvous.h - connecting processes by TCP ---------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_TCP_RENDEZVOUS_H
#define DIVISI_RUNTIME_COMM_TCP_RENDEZVOUS_H

#include "runtime/comm/tcp/Secret.h"
#include "runtime/comm/tcp/Socket.h"

#include <optional>
#include <vector>

namespace divisi::runtime {

/// The rank of this process, and where rank 0 waits for the others.
struct Rendezvous {
  int rank = 0, size = 1;
  std::string address = "127.0.0.1";
  int port = 0;
  double patience = 300;     ///< seconds until the others must have come
  bool severalHosts = false; ///< as the launcher says
  int listener = -1;         ///< of rank 0: a descriptor that waits at the port already; -1: it opens one
  bool mayComeLate = false;  ///< ranks may come while the job runs, in place of those that were lost

  /// Reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Null if one of them is not set or if an MPI launcher started
  /// this process (unless it started torchrun, which sets TORCHELASTIC_RUN_ID). If the launcher uses MASTER_PORT itself
  /// (TORCHELASTIC_USE_AGENT_STORE), the next port is taken. LOCAL_WORLD_SIZE tells whether all ranks are on one host.
  /// DIVISI_LISTENER is the descriptor of rank 0 if the launcher has chosen a free port by waiting at it.
  /// DIVISI_OUTLIVE is set if ranks may come late.
  static Result<std::optional<Rendezvous>> fromEnvironment();
  /// Whether an MPI launcher started this process, and ranks meet over MPI.
  static bool isOverMpi();
};

/// Connections to all other ranks.
struct Connections {
  std::vector<Socket> peers;
  int onHost = 1; ///< ranks whose host has the same name
  int local = 0;  ///< this rank's number among them
  std::vector<int> hosts; ///< by rank: the first one whose host has the same name
  bool runs = false; ///< the job runs already: there is a connection to rank 0 alone
  Socket listener;   ///< where others come: of rank 0 if ranks may come late, and of one that does
};

/// The variable that is set if a job goes on without ranks that were lost, and lets others in.
constexpr const char *outlivesLosses = "DIVISI_OUTLIVE";

/// Waits until all ranks have come. Processes that do not know the secret are ignored.
Result<Connections> connectRanks(const Rendezvous &where, const Secret &secret);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_TCP_RENDEZVOUS_H
