//===- Visitors.h - unauthenticated connections -----------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_TCP_VISITORS_H
#define DIVISI_RUNTIME_COMM_TCP_VISITORS_H

#include "runtime/comm/tcp/Handshake.h"

#include <functional>

namespace divisi::runtime {

/// The connections to a port whose other sides have not proved who they are. Their number is limited; a new one
/// replaces the oldest. Each has little memory and little time.
class Visitors {
public:
  /// Visitors of rank `rank` of `size`.
  Visitors(const Secret &secret, int rank, int size) : secret(secret), rank(rank), size(size) {}
  /// Reports the number of strangers that were not reported one by one.
  ~Visitors();
  Visitors(const Visitors &) = delete;
  Visitors &operator=(const Visitors &) = delete;

  /// Accepts new connections for a limited time. Those that have proved that they know the secret are passed to
  /// `welcome`; if it fails, this returns the failure.
  Status receive(const Socket &listener, const std::function<Status(Visitor &)> &welcome);

private:
  void take(const Socket &listener);
  void turnAway(Visitor &visitor, const std::string &why);

  const Secret &secret;
  int rank, size;
  std::vector<Visitor> all; ///< the oldest first
  int64_t strangers = 0;    ///< number of rejected ones
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_TCP_VISITORS_H
