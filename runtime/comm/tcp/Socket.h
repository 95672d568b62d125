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
/// The time that many seconds from now.
inline Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

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

  /// The address of this end of a connection, or of the other end.
  static Address ofThisEnd(const Socket &socket);
  static Address ofOtherEnd(const Socket &socket);
  /// All interfaces: of IPv6, which includes IPv4, where it is available.
  static std::vector<Address> ofAllInterfaces(int port);

  int family() const { return name.ss_family; }
  int port() const;
  void setPort(int port);
  /// The address without the port, in numbers; empty if there is none.
  std::string text() const;
  bool isLoopback() const;
  /// Whether the address belongs to this host.
  bool isHere() const;
};

/// The addresses of a host; empty if it is unknown.
std::vector<Address> resolve(const std::string &host, int port);

/// Listens at an address; port 0 stands for any free port. If the result is no socket, `errno` is the reason.
Socket listenAt(const Address &address, int backlog);
/// Listens at any free port of the loopback.
Socket listenAnywhere();

/// Tries to connect once, until `until`.
Socket connectTo(const Address &address, Clock::time_point until);

/// Whether data or a connection has arrived by then.
bool isReadable(const Socket &socket, Clock::time_point until);

/// Sends or receives all bytes in time; false if the other side is too slow or gone.
bool sendAll(const Socket &socket, const void *data, size_t bytes, Clock::time_point until);
bool receiveAll(const Socket &socket, void *data, size_t bytes, Clock::time_point until);

/// Configures a socket for messages of ranks: without delay, and with probes of the other host.
void configure(const Socket &socket);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_TCP_SOCKET_H
