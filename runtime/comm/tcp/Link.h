//===- Link.h - the connection to another rank ------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_TCP_LINK_H
#define DIVISI_RUNTIME_COMM_TCP_LINK_H

#include "runtime/comm/tcp/Ring.h"
#include "runtime/comm/tcp/Socket.h"

namespace divisi::runtime {

/// Carries bytes in both directions: through memory that two processes of a host share, where they do, and else through a
/// socket. Beside such memory the socket only tells that the other process has ended.
class Link {
public:
  explicit Link(Socket socket = Socket()) : socket(std::move(socket)) {}
  explicit operator bool() const { return static_cast<bool>(socket); }
  bool sharesMemory() const { return rings != nullptr; }

  /// The number of bytes that could be sent or received without waiting, perhaps 0; -1 if the other side has ended.
  ssize_t send(const void *data, size_t bytes, bool moreFollows);
  ssize_t receive(void *data, size_t bytes);

private:
  friend Result<std::vector<Link>> connectLinks(std::vector<Socket> sockets, int rank, Clock::time_point until);

  Socket socket;
  std::unique_ptr<RingPair> rings;
};

/// Links to all other ranks, by connections to them. All ranks call this at the same time; they find out which of them can
/// share memory.
Result<std::vector<Link>> connectLinks(std::vector<Socket> sockets, int rank, Clock::time_point until);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_TCP_LINK_H
