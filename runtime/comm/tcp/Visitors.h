//===- Visitors.h - who comes to a port that is open to all -----*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_TCP_VISITORS_H
#define DIVISI_RUNTIME_COMM_TCP_VISITORS_H

#include "runtime/comm/tcp/Handshake.h"

#include <functional>

namespace divisi::runtime {

/// The connections to a port whose other sides have not proved who they are: a limited number of them, the oldest of
/// which makes way for the newest, each with little memory and little time.
class Visitors {
public:
  /// For rank `rank` of `size`.
  Visitors(const Secret &secret, int rank, int size) : secret(secret), rank(rank), size(size) {}
  /// Says how many strangers came of whom nothing was said.
  ~Visitors();
  Visitors(const Visitors &) = delete;
  Visitors &operator=(const Visitors &) = delete;

  /// Takes new connections for some time at most; those that have proved that they know the secret go to `welcome`,
  /// whose failure ends it.
  Status receive(const Socket &listener, const std::function<Status(Visitor &)> &welcome);

private:
  void take(const Socket &listener);
  void turnAway(Visitor &visitor, const std::string &why);

  const Secret &secret;
  int rank, size;
  std::vector<Visitor> all; ///< the oldest first
  int64_t strangers = 0;    ///< turned away
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_TCP_VISITORS_H
