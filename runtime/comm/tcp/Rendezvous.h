//===- Rendezvous.h - processes find each other by TCP ----------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_TCP_RENDEZVOUS_H
#define DIVISI_RUNTIME_COMM_TCP_RENDEZVOUS_H

#include "runtime/core/Status.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace divisi::runtime {

/// A file descriptor, closed with the object.
class Socket {
public:
  explicit Socket(int fd = -1) : fd(fd) {}
  Socket(Socket &&other) noexcept : fd(std::exchange(other.fd, -1)) {}
  Socket &operator=(Socket &&other) noexcept {
    std::swap(fd, other.fd);
    return *this;
  }
  ~Socket();
  explicit operator bool() const { return fd >= 0; }
  int get() const { return fd; }

private:
  int fd;
};

/// Which rank this process is, and where rank 0 waits for the others.
struct Rendezvous {
  int rank = 0, size = 1;
  std::string address = "127.0.0.1";
  int port = 0;
  double patience = 300; ///< seconds until the others must have come

  /// From RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; nothing unless all of them are set, and not a launcher of MPI
  /// started this process (torchrun, which it may have started, names its run in TORCHELASTIC_RUN_ID). Where a launcher
  /// keeps MASTER_PORT for itself (TORCHELASTIC_USE_AGENT_STORE) it is the next one.
  static Result<std::optional<Rendezvous>> fromEnvironment();
};

/// Connections to all ranks; none to this one itself.
struct Connections {
  std::vector<Socket> peers;
  int onHost = 1; ///< ranks whose host has the same name
  int local = 0;  ///< this rank's number among them
};

/// Waits until all ranks have come.
Result<Connections> connectRanks(const Rendezvous &where);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_TCP_RENDEZVOUS_H
