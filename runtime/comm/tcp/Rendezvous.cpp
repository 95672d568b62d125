#include "runtime/comm/tcp/Rendezvous.h"

#include <algorithm>
#include <arpa/inet.h>
#include <charconv>
#include <chrono>
#include <cstring>
#include <functional>
#include <iostream>
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
Addresses resolve(const char *host, int port, int flags = 0, int family = AF_UNSPEC) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_family = family;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  if (getaddrinfo(host, std::to_string(port).c_str(), &hints, &found) != 0)
    found = nullptr;
  return {found, &freeaddrinfo};
}

bool set(const Socket &socket, int level, int option, int value) {
  return ::setsockopt(socket.get(), level, option, &value, sizeof value) == 0;
}

/// Waits on a port (0: any that is free) of all interfaces: of IPv6, which takes those of IPv4 as well, where there is
/// such a thing.
Socket listenOn(int port, int backlog) {
  for (int family : {AF_INET6, AF_INET}) {
    Addresses addresses = resolve(nullptr, port, AI_PASSIVE, family);
    if (const addrinfo *a = addresses.get()) {
      Socket socket(::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol));
      if (socket && set(socket, SOL_SOCKET, SO_REUSEADDR, 1) &&
          (family == AF_INET || set(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0)) &&
          ::bind(socket.get(), a->ai_addr, a->ai_addrlen) == 0 && ::listen(socket.get(), backlog) == 0)
        return socket;
    }
  }
  return Socket();
}

/// A host that vanishes sends nothing more: the kernel asks after half a minute of silence, and gives it up a minute
/// later.
void configure(const Socket &socket) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 6);
}

/// Address and port of one end of a connection.
struct End {
  std::string address;
  int port = 0;
  bool operator==(const End &) const = default;

  explicit End(const Socket &socket, decltype(::getsockname) *which = ::getsockname) {
    sockaddr_storage name = {};
    socklen_t length = sizeof name;
    char text[INET6_ADDRSTRLEN + 16] = {}, number[8] = {};
    auto *base = reinterpret_cast<sockaddr *>(&name);
    if (which(socket.get(), base, &length) != 0 ||
        ::getnameinfo(base, length, text, sizeof text, number, sizeof number, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
      return;
    address = text;
    port = std::atoi(number);
    // An address of IPv4 as IPv6 writes it is nothing to a host without IPv6.
    if (constexpr std::string_view mapped = "::ffff:";
        address.starts_with(mapped) && address.find('.') != std::string::npos)
      address.erase(0, mapped.size());
  }
  bool isLoopback() const { return address.starts_with("127.") || address == "::1"; }
};

/// Tries until somebody answers.
Socket connectTo(const char *host, int port, Clock::time_point until) {
  while (true) {
    Addresses addresses = resolve(host, port);
    for (const addrinfo *a = addresses.get(); a; a = a->ai_next) {
      Socket socket(::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol));
      // (Where nobody waits on a port that the kernel may give to who asks, one can reach oneself.)
      if (socket && ::connect(socket.get(), a->ai_addr, a->ai_addrlen) == 0 &&
          End(socket) != End(socket, ::getpeername))
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
    mine.port = End(listener).port;
    Status status = where.rank == 0 ? lead(listener) : follow(listener);
    if (!status.ok())
      return status;
    auto isHere = [&](const Place &place) { return std::strncmp(place.host, mine.host, sizeof mine.host) == 0; };
    result.onHost = static_cast<int>(std::count_if(places.begin(), places.end(), isHere));
    result.local = static_cast<int>(std::count_if(places.begin(), places.begin() + where.rank, isHere));
    for (Socket &peer : result.peers)
      if (peer)
        configure(peer);
    return std::move(result);
  }

private:
  Socket &peer(int rank) { return result.peers[static_cast<size_t>(rank)]; }

  /// A process that has connected, and what it has said so far.
  struct Visitor {
    Socket socket;
    Hello hello;
    size_t said = 0;
    bool leaves = false;
  };

  /// Takes connections of ranks from `first` on until all have come; whoever is no rank of ours is left.
  Status accept(const Socket &listener, int first, const std::function<void(int, const Hello &)> &note) {
    int missing = where.size - first;
    auto tell = Clock::now() + std::chrono::seconds(10);
    std::vector<Visitor> visitors;
    while (forgetLost(first, missing), missing > 0) {
      if (Clock::now() > until)
        return failure("rank ", where.rank, ": ", missing, " of ", where.size, " ranks have not come within ",
                       where.patience, " seconds (", absent(first), ")");
      if (where.rank == 0 && Clock::now() > tell) {
        std::cerr << concat("note: rank 0 waits for ", absent(first), " on port ", where.port, "\n") << std::flush;
        tell = until;
      }
      std::vector<pollfd> ready = {{listener.get(), POLLIN, 0}};
      for (const Visitor &visitor : visitors)
        ready.push_back({visitor.socket.get(), POLLIN, 0});
      if (::poll(ready.data(), ready.size(), 200) <= 0)
        continue;
      for (size_t i = 0; i < visitors.size(); ++i)
        if (ready[i + 1].revents != 0 && listen(visitors[i])) {
          if (Status status = welcome(visitors[i], first, missing, note); !status.ok())
            return status;
        }
      std::erase_if(visitors, [](const Visitor &visitor) { return visitor.leaves; });
      if (ready[0].revents == 0)
        continue;
      if (Socket socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)); socket)
        visitors.push_back({std::move(socket), {}});
      else if (!visitors.empty()) // too many files are open: who has waited longest without a word goes
        visitors.erase(visitors.begin());
    }
    return {};
  }

  /// Ranks that have come and ended meanwhile may be started anew, as long as nobody has heard of them.
  void forgetLost(int first, int &missing) {
    char byte;
    for (int rank = first; where.rank == 0 && rank < where.size; ++rank)
      if (Socket &known = peer(rank); known && ::recv(known.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0) {
        known = Socket();
        ++missing;
      }
  }

  /// The ranks from `first` on that have not come, a few of them by number.
  std::string absent(int first) {
    std::string text;
    int count = 0;
    for (int rank = first; rank < where.size; ++rank)
      if (!peer(rank) && ++count <= 8)
        text += concat(count == 1 ? "" : ", ", rank);
    return concat(count == 1 ? "rank " : "ranks ", text, count > 8 ? ", ..." : "");
  }

  /// Whether a visitor has said who it is.
  static bool listen(Visitor &visitor) {
    char *to = reinterpret_cast<char *>(&visitor.hello) + visitor.said;
    ssize_t got = ::recv(visitor.socket.get(), to, sizeof(Hello) - visitor.said, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
      return false;
    visitor.said += static_cast<size_t>(std::max<ssize_t>(got, 0));
    bool complete = visitor.said == sizeof(Hello), ours = visitor.said < sizeof magic || visitor.hello.magic == magic;
    visitor.leaves = complete || got <= 0 || !ours;
    return complete && ours;
  }

  Status welcome(Visitor &visitor, int first, int &missing, const std::function<void(int, const Hello &)> &note) {
    const Hello &hello = visitor.hello;
    if (hello.size != where.size)
      return failure("rank ", hello.rank, " was started as one of ", hello.size, " ranks (WORLD_SIZE), but rank ",
                     where.rank, " as one of ", where.size);
    if (hello.rank < first || hello.rank >= where.size)
      return failure("a process says that it is rank ", hello.rank, " (RANK), which rank ", where.rank,
                     " does not wait for");
    if (peer(hello.rank))
      return failure("two processes say that they are rank ", hello.rank, " (RANK)");
    peer(hello.rank) = std::move(visitor.socket);
    note(hello.rank, hello);
    --missing;
    return {};
  }

  Status lead(const Socket &listener) {
    std::memcpy(places[0].host, mine.host, sizeof mine.host);
    Status status = accept(listener, 1, [&](int rank, const Hello &hello) {
      Place &place = places[static_cast<size_t>(rank)];
      place.port = hello.port;
      std::memcpy(place.host, hello.host, sizeof place.host);
      // Others reach a rank of this host as they reach this one.
      if (End end(peer(rank), ::getpeername); !end.isLoopback())
        std::strncpy(place.address, end.address.c_str(), sizeof place.address - 1);
    });
    for (int rank = 1; rank < where.size && status.ok(); ++rank)
      if (!transfer(peer(rank).get(), places.data(), places.size() * sizeof(Place), true, until))
        status = failure("rank ", rank, " has ended before training began");
    return status;
  }

  Status follow(const Socket &listener) {
    if (!resolve(where.address.c_str(), where.port) && where.patience > 30)
      std::cerr << concat("note: rank ", where.rank, " does not know the host '", where.address,
                          "' (MASTER_ADDR) yet, and asks again\n")
                << std::flush;
    peer(0) = greet(where.address.c_str(), where.port);
    if (!peer(0))
      return failure("rank ", where.rank, ": nobody answers at ", where.address, ":", where.port,
                     " (MASTER_ADDR, MASTER_PORT)");
    if (!transfer(peer(0).get(), places.data(), places.size() * sizeof(Place), false, until))
      return failure("rank ", where.rank, ": rank 0 has ended before all ranks had come");
    for (int rank = 1; rank < where.rank; ++rank) {
      Place &place = places[static_cast<size_t>(rank)];
      place.address[sizeof place.address - 1] = 0;
      const char *address = *place.address ? place.address : where.address.c_str();
      if (!(peer(rank) = greet(address, place.port)))
        return failure("rank ", where.rank, " does not reach rank ", rank, " at ", address, ":", place.port);
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
    if (std::getenv(name) && !std::getenv("TORCHELASTIC_RUN_ID"))
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
