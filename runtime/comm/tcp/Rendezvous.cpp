#include "runtime/comm/tcp/Rendezvous.h"

#include <algorithm>
#include <arpa/inet.h>
#include <charconv>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace divisi::runtime;

namespace {
using Clock = std::chrono::steady_clock;
constexpr uint32_t magic = 0x44695631; // DiV1

/// What a process says first on every connection.
struct Hello {
  uint32_t magic = ::magic;
  int32_t rank = 0, size = 0, port = 0; ///< `port`: where it waits for ranks above it
  char host[64] = {};
};
/// Where a rank is: rank 0 tells all.
struct Place {
  char address[INET6_ADDRSTRLEN] = {};
  int32_t port = 0;
  char host[64] = {};
};

std::optional<int> numberIn(const char *name, int least, int most) {
  const char *text = std::getenv(name);
  int value = 0;
  if (!text || std::from_chars(text, text + std::strlen(text), value).ptr != text + std::strlen(text) || !*text ||
      value < least || value > most)
    return std::nullopt;
  return value;
}

/// All of it within the time; false if the other side is slow or gone.
bool transfer(int fd, void *data, size_t bytes, bool writes, Clock::time_point until) {
  auto *at = static_cast<char *>(data);
  while (bytes > 0) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd ready{fd, static_cast<short>(writes ? POLLOUT : POLLIN), 0};
    if (left <= 0 || (::poll(&ready, 1, static_cast<int>(std::min<int64_t>(left, 1000))) < 0 && errno != EINTR))
      return false;
    if (ready.revents == 0)
      continue;
    ssize_t done = writes ? ::send(fd, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) : ::recv(fd, at, bytes, MSG_DONTWAIT);
    if (done == 0 || (done < 0 && errno != EAGAIN && errno != EINTR))
      return false;
    if (done > 0) {
      at += done;
      bytes -= static_cast<size_t>(done);
    }
  }
  return true;
}

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;
Addresses resolve(const char *host, int port, bool passive) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = passive ? AI_PASSIVE : 0;
  if (getaddrinfo(host, std::to_string(port).c_str(), &hints, &found) != 0)
    found = nullptr;
  return {found, &freeaddrinfo};
}

/// Waits on a port (0: any that is free) of all interfaces.
Socket listenOn(int port, int backlog) {
  Addresses addresses = resolve(nullptr, port, true);
  for (const addrinfo *a = addresses.get(); a; a = a->ai_next) {
    Socket socket(::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol));
    int one = 1;
    if (socket && ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
        ::bind(socket.get(), a->ai_addr, a->ai_addrlen) == 0 && ::listen(socket.get(), backlog) == 0)
      return socket;
  }
  return Socket();
}

int portOf(const Socket &socket) {
  sockaddr_storage name = {};
  socklen_t length = sizeof name;
  ::getsockname(socket.get(), reinterpret_cast<sockaddr *>(&name), &length);
  return ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6 *>(&name)->sin6_port
                                          : reinterpret_cast<sockaddr_in *>(&name)->sin_port);
}

/// Tries until somebody answers.
Socket connectTo(const char *host, int port, Clock::time_point until) {
  while (true) {
    Addresses addresses = resolve(host, port, false);
    for (const addrinfo *a = addresses.get(); a; a = a->ai_next) {
      Socket socket(::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol));
      if (socket && ::connect(socket.get(), a->ai_addr, a->ai_addrlen) == 0)
        return socket;
    }
    if (Clock::now() > until)
      return Socket();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

class Meeting {
public:
  explicit Meeting(const Rendezvous &where)
      : where(where), until(Clock::now() +
                            std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(where.patience))),
        places(static_cast<size_t>(where.size)) {
    mine.rank = where.rank;
    mine.size = where.size;
    ::gethostname(mine.host, sizeof mine.host - 1);
    result.peers.resize(static_cast<size_t>(where.size));
  }

  Result<Connections> run() {
    Socket listener = listenOn(where.rank == 0 ? where.port : 0, where.size);
    if (!listener)
      return failure("rank ", where.rank, " cannot wait for other ranks",
                     where.rank == 0 ? concat(" on port ", where.port) : "", ": ", systemError(),
                     where.rank == 0 ? " (another MASTER_PORT may be free)" : "");
    mine.port = portOf(listener);
    Status status = where.rank == 0 ? lead(listener) : follow(listener);
    if (!status.ok())
      return status;
    result.onHost = static_cast<int>(std::count_if(places.begin(), places.end(), [&](const Place &place) {
      return std::strncmp(place.host, mine.host, sizeof mine.host) == 0;
    }));
    for (Socket &peer : result.peers) {
      int one = 1;
      if (peer)
        ::setsockopt(peer.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    return std::move(result);
  }

private:
  Socket &peer(int rank) { return result.peers[static_cast<size_t>(rank)]; }

  /// Takes connections of ranks from `first` on until all have come; whoever is no rank of ours is left.
  Status accept(const Socket &listener, int first, const std::function<void(int, const Hello &)> &note) {
    int missing = where.size - first;
    while (missing > 0) {
      if (Clock::now() > until)
        return failure("rank ", where.rank, ": ", missing, " of ", where.size, " ranks have not come within ",
                       where.patience, " seconds");
      pollfd ready{listener.get(), POLLIN, 0};
      if (::poll(&ready, 1, 200) <= 0)
        continue;
      Socket socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      Hello hello;
      auto soon = std::min(until, Clock::now() + std::chrono::seconds(10));
      if (!socket || !transfer(socket.get(), &hello, sizeof hello, false, soon) || hello.magic != magic)
        continue;
      if (hello.size != where.size)
        return failure("rank ", hello.rank, " was started as one of ", hello.size, " ranks (WORLD_SIZE), but rank ",
                       where.rank, " as one of ", where.size);
      if (hello.rank < first || hello.rank >= where.size || peer(hello.rank))
        return failure("two processes say that they are rank ", hello.rank, " (RANK)");
      peer(hello.rank) = std::move(socket);
      note(hello.rank, hello);
      --missing;
    }
    return {};
  }

  Status lead(const Socket &listener) {
    std::memcpy(places[0].host, mine.host, sizeof mine.host);
    Status status = accept(listener, 1, [&](int rank, const Hello &hello) {
      Place &place = places[static_cast<size_t>(rank)];
      place.port = hello.port;
      std::memcpy(place.host, hello.host, sizeof place.host);
      sockaddr_storage name = {};
      socklen_t length = sizeof name;
      ::getpeername(peer(rank).get(), reinterpret_cast<sockaddr *>(&name), &length);
      ::getnameinfo(reinterpret_cast<sockaddr *>(&name), length, place.address, sizeof place.address, nullptr, 0,
                    NI_NUMERICHOST);
    });
    for (int rank = 1; rank < where.size && status.ok(); ++rank)
      if (!transfer(peer(rank).get(), places.data(), places.size() * sizeof(Place), true, until))
        status = failure("rank ", rank, " has ended before training began");
    return status;
  }

  Status follow(const Socket &listener) {
    peer(0) = greet(where.address.c_str(), where.port);
    if (!peer(0))
      return failure("rank ", where.rank, ": nobody answers at ", where.address, ":", where.port,
                     " (MASTER_ADDR, MASTER_PORT)");
    if (!transfer(peer(0).get(), places.data(), places.size() * sizeof(Place), false, until))
      return failure("rank ", where.rank, ": rank 0 has ended before all ranks had come");
    for (int rank = 1; rank < where.rank; ++rank) {
      Place &place = places[static_cast<size_t>(rank)];
      place.address[sizeof place.address - 1] = 0;
      if (!(peer(rank) = greet(place.address, place.port)))
        return failure("rank ", where.rank, " does not reach rank ", rank, " at ", place.address, ":", place.port);
    }
    return accept(listener, where.rank + 1, [](int, const Hello &) {});
  }

  Socket greet(const char *host, int port) {
    Socket socket = connectTo(host, port, until);
    return socket && transfer(socket.get(), &mine, sizeof mine, true, until) ? std::move(socket) : Socket();
  }

  const Rendezvous &where;
  Clock::time_point until;
  Hello mine;
  std::vector<Place> places;
  Connections result;
};
} // namespace

Socket::~Socket() {
  if (fd >= 0)
    ::close(fd);
}

Result<std::optional<Rendezvous>> Rendezvous::fromEnvironment() {
  const char *address = std::getenv("MASTER_ADDR");
  for (const char *name : {"RANK", "WORLD_SIZE", "MASTER_PORT"})
    if (!address || !std::getenv(name))
      return std::optional<Rendezvous>();
  for (const char *name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"})
    if (std::getenv(name))
      return std::optional<Rendezvous>();
  auto size = numberIn("WORLD_SIZE", 1, 1 << 20), port = numberIn("MASTER_PORT", 1, 65534);
  auto rank = numberIn("RANK", 0, size.value_or(1) - 1);
  if (!size || !port || !rank)
    return Status::usage(!size   ? "WORLD_SIZE is not a number of ranks"
                         : !port ? "MASTER_PORT is not a port"
                                 : "RANK is not a number below WORLD_SIZE");
  const char *kept = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  return std::optional(Rendezvous{*rank, *size, address, *port + (kept && std::strcmp(kept, "True") == 0)});
}

Result<Connections> divisi::runtime::connectRanks(const Rendezvous &where) { return Meeting(where).run(); }
