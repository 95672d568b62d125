//===- Socket.h - connections by TCP ----------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_TCP_SOCKET_H
#define DIVISI_RUNTIME_COMM_TCP_SOCKET_H

#include "runtime/core/Status.h"

#include <chrono>
#include <sys/socket.h>
#include <utility>
#include <vector>

namespace divisi::runtime {

using Clock = std::chrono::steady_clock;

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

/// An address with its port.
struct Address {
  sockaddr_storage name = {};
  socklen_t length = 0;

  /// Of this end of a connection, or of the other one.
  static Address ofThisEnd(const Socket &socket);
  static Address ofOtherEnd(const Socket &socket);
  /// All interfaces: of IPv6, which takes those of IPv4 as well, where there is such a thing.
  static std::vector<Address> ofAllInterfaces(int port);

  int family() const { return name.ss_family; }
  int port() const;
  void setPort(int port);
  /// Without the port, as numbers; empty if there is none.
  std::string text() const;
  bool isLoopback() const;
  /// Whether it belongs to this host.
  bool isHere() const;
};

/// The addresses of a host, none if it is not known.
std::vector<Address> resolve(const std::string &host, int port);

/// Waits for connections at an address; at port 0 at any that is free. `errno` says why it is no socket.
Socket listenAt(const Address &address, int backlog);

/// One try to connect, which ends at `until`.
Socket connectTo(const Address &address, Clock::time_point until);

/// Whether something has come to be read, or a connection to be taken, by then.
bool isReadable(const Socket &socket, Clock::time_point until);

/// All of it within the time; false if the other side is slow or gone.
bool sendAll(const Socket &socket, const void *data, size_t bytes, Clock::time_point until);
bool receiveAll(const Socket &socket, void *data, size_t bytes, Clock::time_point until);

/// For messages of ranks: without delay, and asking now and then whether the other host is still there.
void configure(const Socket &socket);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_TCP_SOCKET_H
