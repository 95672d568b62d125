#include "runtime/comm/tcp/Socket.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

using namespace divisi::runtime;

namespace {
sockaddr *generic(Address &address) { return reinterpret_cast<sockaddr *>(&address.name); }
const sockaddr *generic(const Address &address) { return reinterpret_cast<const sockaddr *>(&address.name); }

std::vector<Address> find(const char *host, int port, int flags, int family) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_family = family;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  if (getaddrinfo(host, std::to_string(port).c_str(), &hints, &found) != 0)
    return {};
  std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, &freeaddrinfo);
  std::vector<Address> addresses;
  for (const addrinfo *a = found; a; a = a->ai_next) {
    Address &address = addresses.emplace_back();
    address.length = a->ai_addrlen;
    std::copy_n(reinterpret_cast<const char *>(a->ai_addr), a->ai_addrlen, reinterpret_cast<char *>(&address.name));
  }
  return addresses;
}

Address endOf(const Socket &socket, decltype(::getsockname) *which) {
  Address end;
  end.length = sizeof end.name;
  if (which(socket.get(), generic(end), &end.length) != 0)
    end = {};
  return end;
}

bool set(const Socket &socket, int level, int option, int value) {
  return ::setsockopt(socket.get(), level, option, &value, sizeof value) == 0;
}

Socket open(const Address &address, int kind) { return Socket(::socket(address.family(), kind | SOCK_CLOEXEC, 0)); }

/// Waits until the socket can be read or written; false after `until`.
bool waitFor(const Socket &socket, short events, Clock::time_point until) {
  while (true) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd ready{socket.get(), events, 0};
    int count = ::poll(&ready, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 1000)));
    if (count > 0)
      return true;
    if (left <= 0 || (count < 0 && errno != EINTR))
      return false;
  }
}

bool transfer(const Socket &socket, char *at, size_t bytes, bool writes, Clock::time_point until) {
  while (bytes > 0) {
    if (!waitFor(socket, writes ? POLLOUT : POLLIN, until))
      return false;
    ssize_t done = writes ? ::send(socket.get(), at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT)
                          : ::recv(socket.get(), at, bytes, MSG_DONTWAIT);
    if (done == 0 || (done < 0 && errno != EAGAIN && errno != EINTR))
      return false;
    if (done > 0) {
      at += done;
      bytes -= static_cast<size_t>(done);
    }
  }
  return true;
}
} // namespace

Socket::~Socket() {
  if (fd >= 0)
    ::close(fd);
}

Address Address::ofThisEnd(const Socket &socket) { return endOf(socket, ::getsockname); }
Address Address::ofOtherEnd(const Socket &socket) { return endOf(socket, ::getpeername); }

std::vector<Address> Address::ofAllInterfaces(int port) {
  std::vector<Address> all = find(nullptr, port, AI_PASSIVE, AF_INET6);
  for (const Address &address : find(nullptr, port, AI_PASSIVE, AF_INET))
    all.push_back(address);
  return all;
}

int Address::port() const {
  // sin6_port is at the same offset.
  return length > 0 ? ntohs(reinterpret_cast<const sockaddr_in *>(&name)->sin_port) : 0;
}

void Address::setPort(int port) {
  reinterpret_cast<sockaddr_in *>(&name)->sin_port = htons(static_cast<uint16_t>(port));
}

std::string Address::text() const {
  char host[NI_MAXHOST] = {};
  if (length == 0 || ::getnameinfo(generic(*this), length, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0)
    return "";
  // An IPv4 address in IPv6 notation is not valid on a host without IPv6.
  std::string_view text = host;
  if (constexpr std::string_view mapped = "::ffff:";
      text.starts_with(mapped) && text.find('.') != std::string_view::npos)
    text.remove_prefix(mapped.size());
  return std::string(text);
}

bool Address::isLoopback() const {
  std::string address = text();
  return address.starts_with("127.") || address == "::1";
}

bool Address::isHere() const {
  Address free = *this;
  free.setPort(0);
  Socket socket = open(free, SOCK_DGRAM);
  return socket && ::bind(socket.get(), generic(free), free.length) == 0;
}

std::vector<Address> divisi::runtime::resolve(const std::string &host, int port) {
  return find(host.c_str(), port, 0, AF_UNSPEC);
}

Socket divisi::runtime::listenAt(const Address &address, int backlog) {
  Socket socket = open(address, SOCK_STREAM | SOCK_NONBLOCK);
  if (socket && set(socket, SOL_SOCKET, SO_REUSEADDR, 1) &&
      (address.family() != AF_INET6 || set(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0)) &&
      ::bind(socket.get(), generic(address), address.length) == 0 && ::listen(socket.get(), backlog) == 0)
    return socket;
  return Socket();
}

Socket divisi::runtime::listenAnywhere() {
  Address address;
  auto &name = reinterpret_cast<sockaddr_in &>(address.name);
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.length = sizeof name;
  return listenAt(address, 128);
}

Socket divisi::runtime::connectTo(const Address &address, Clock::time_point until) {
  Socket socket = open(address, SOCK_STREAM | SOCK_NONBLOCK);
  if (!socket || (::connect(socket.get(), generic(address), address.length) != 0 &&
                  (errno != EINPROGRESS || !waitFor(socket, POLLOUT, until))))
    return Socket();
  int error = 0;
  socklen_t length = sizeof error;
  Address self = Address::ofThisEnd(socket), other = Address::ofOtherEnd(socket);
  // If nobody listens on a port from which the kernel assigns local ports, a socket can connect to itself.
  bool itself = self.port() == other.port() && self.text() == other.text();
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0 || itself)
    return Socket();
  return socket;
}

bool divisi::runtime::isReadable(const Socket &socket, Clock::time_point until) {
  return waitFor(socket, POLLIN, until);
}

bool divisi::runtime::sendAll(const Socket &socket, const void *data, size_t bytes, Clock::time_point until) {
  return transfer(socket, const_cast<char *>(static_cast<const char *>(data)), bytes, true, until);
}

bool divisi::runtime::receiveAll(const Socket &socket, void *data, size_t bytes, Clock::time_point until) {
  return transfer(socket, static_cast<char *>(data), bytes, false, until);
}

void divisi::runtime::configure(const Socket &socket) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  // A host that has vanished sends nothing more. The kernel probes it after half a minute of silence and gives up a
  // minute later.
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 6);
}
