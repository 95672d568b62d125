#include "runtime/comm/tcp/Rendezvous.h"
#include "runtime/comm/tcp/Visitors.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <iostream>
#include <net/if.h>
#include <netinet/in.h>
#include <thread>
#include <unistd.h>

using namespace divisi::runtime;

namespace {
/// Time after which a rank reports what it waits for.
constexpr auto untilNoted = std::chrono::seconds(8);
/// Seconds for which other ranks wait longer than rank 0, which knows the ranks that have not come.
constexpr double longer = 3;

/// The address of a rank; rank 0 sends all addresses to all ranks.
struct Place {
  char address[INET6_ADDRSTRLEN + IFNAMSIZ] = {};
  int32_t port = 0;
  char host[64] = {};
};

std::optional<int> numberIn(const char *name, int least, int most) {
  const char *text = std::getenv(name);
  int value = 0;
  std::string_view digits = text ? text : "";
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  bool fits = error == std::errc() && end == digits.data() + digits.size() && value >= least && value <= most;
  return fits ? std::optional(value) : std::nullopt;
}

/// What rank 0 sends first; the addresses follow, unless the job runs already.
struct Opening {
  int32_t runs = 0;
};

void note(const std::string &line) { std::cerr << concat("note: ", line, "\n") << std::flush; }

class Meeting {
public:
  Meeting(const Rendezvous &where, const Secret &secret)
      : where(where), secret(secret),
        patience(where.patience + (where.rank > 0 ? longer : 0)),
        until(after(patience)),
        places(static_cast<size_t>(where.size)) {
    mine.rank = where.rank;
    mine.size = where.size;
    ::gethostname(mine.host, sizeof mine.host - 1);
    result.peers.resize(static_cast<size_t>(where.size));
  }

  Result<Connections> run() {
    Status status = checkSecret();
    if (status.ok())
      status = where.rank == 0 ? lead() : follow();
    if (!status.ok())
      return status;
    if (result.runs)
      return std::move(result);
    auto areOne = [](const Place &a, const Place &b) { return std::strncmp(a.host, b.host, sizeof a.host) == 0; };
    for (const Place &place : places) {
      auto first = std::find_if(places.begin(), places.end(), [&](const Place &other) { return areOne(other, place); });
      result.hosts.push_back(static_cast<int>(first - places.begin()));
    }
    auto isHere = [&](const Place &place) { return areOne(place, places[static_cast<size_t>(where.rank)]); };
    result.onHost = static_cast<int>(std::count_if(places.begin(), places.end(), isHere));
    result.local = static_cast<int>(std::count_if(places.begin(), places.begin() + where.rank, isHere));
    for (Socket &peer : result.peers)
      if (peer)
        configure(peer);
    return std::move(result);
  }

private:
  Socket &peer(int rank) { return result.peers[static_cast<size_t>(rank)]; }

  /// Fails if other hosts take part: the default secret is that of this user on one host.
  Status checkSecret() const {
    if (secret.given)
      return {};
    std::vector<Address> addresses = resolve(where.address, where.port);
    bool elsewhere = where.rank > 0 && !addresses.empty() &&
                     std::none_of(addresses.begin(), addresses.end(), [](const Address &a) { return a.isHere(); });
    if (!where.severalHosts && !elsewhere)
      return {};
    return Status::usage(
        concat("rank ", where.rank, ": ", elsewhere ? "MASTER_ADDR is another host: " : "", secretRemedy));
  }

  /// Whether MASTER_ADDR stands for this host alone. Some systems map a host's own name to a loopback address, which
  /// others cannot reach. With a given secret, which other hosts may know, such a name stands for all interfaces.
  bool isAlone(const Address &address) const {
    bool named = where.address == "localhost" || where.address.starts_with("127.") || where.address == "::1";
    return address.isLoopback() && (named || !secret.given);
  }

  Result<Socket> listen(const std::vector<Address> &addresses) const {
    std::vector<Address> candidates;
    for (const Address &address : addresses)
      if (isAlone(address) || !address.isLoopback())
        candidates.push_back(address);
    if (secret.given) // an address that the network translates
      for (const Address &address : Address::ofAllInterfaces(addresses.empty() ? where.port : addresses[0].port()))
        candidates.push_back(address);
    for (const Address &address : candidates) {
      if (Socket socket = listenAt(address, where.size + 128); socket)
        return socket;
      if (errno == EADDRINUSE || errno == EACCES)
        break;
    }
    std::string reason = candidates.empty() ? "the host is not known" : systemError();
    if (where.rank > 0)
      return failure("rank ", where.rank, " cannot wait for other ranks: ", reason);
    return failure("rank 0 cannot wait for other ranks at ", where.address, " (MASTER_ADDR) on port ", where.port, ": ",
                   reason, errno == EADDRINUSE ? " (another MASTER_PORT may be free)" : "");
  }

  /// Accepts connections of the ranks from `first` on until all have come.
  Status accept(const Socket &listener, int first, const std::function<void(int, const Hello &)> &write) {
    int missing = where.size - first;
    auto tell = Clock::now() + untilNoted;
    Visitors visitors(secret, where.rank, where.size);
    while (forgetLost(first, missing), missing > 0) {
      if (Clock::now() > until)
        return Status::silence(concat("rank ", where.rank, ": ", missing, " of ", where.size, " ranks have not come within ",
                                      patience, " seconds (", absent(first), ")"));
      if (Clock::now() > tell) {
        note(concat("rank ", where.rank, " waits for ", absent(first), " on port ",
                    Address::ofThisEnd(listener).port()));
        tell = until;
      }
      Status status = visitors.receive(listener, [&](Visitor &visitor) {
        Status status = check(visitor.hello(), first);
        if (status.ok()) {
          int rank = visitor.hello().rank;
          peer(rank) = std::move(visitor.socket());
          write(rank, visitor.hello());
          --missing;
        }
        return status;
      });
      if (!status.ok())
        return status;
    }
    return {};
  }

  /// Forgets ranks that have ended meanwhile. They may be restarted, as long as no other rank knows their address.
  void forgetLost(int first, int &missing) {
    char byte;
    for (int rank = first; where.rank == 0 && rank < where.size; ++rank)
      if (Socket &known = peer(rank)) {
        ssize_t got = ::recv(known.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
          known = Socket();
          ++missing;
        }
      }
  }

  /// A text that names some of the ranks from `first` on that have not come.
  std::string absent(int first) {
    std::string text;
    int count = 0;
    for (int rank = first; rank < where.size; ++rank)
      if (!peer(rank) && ++count <= 8)
        text += concat(count == 1 ? "" : ", ", rank);
    return concat(count == 1 ? "rank " : "ranks ", text, count > 8 ? ", ..." : "");
  }

  /// Checks the hello of a process of this job.
  Status check(const Hello &hello, int first) {
    if (hello.size != where.size)
      return failure("rank ", hello.rank, " was started as one of ", hello.size, " ranks (WORLD_SIZE), but rank ",
                     where.rank, " as one of ", where.size);
    if (hello.rank < first || hello.rank >= where.size)
      return failure("a process says that it is rank ", hello.rank, " (RANK), which rank ", where.rank,
                     " does not wait for");
    if (peer(hello.rank))
      return failure("two processes say that they are rank ", hello.rank, " (RANK)");
    return {};
  }

  /// The socket that the launcher has opened.
  Result<Socket> inherited() const {
    int waits = 0;
    socklen_t length = sizeof waits;
    if (::getsockopt(where.listener, SOL_SOCKET, SO_ACCEPTCONN, &waits, &length) != 0 || !waits)
      return Status::usage("DIVISI_LISTENER is not the descriptor of a socket that waits for connections");
    ::fcntl(where.listener, F_SETFD, FD_CLOEXEC);
    ::fcntl(where.listener, F_SETFL, ::fcntl(where.listener, F_GETFL) | O_NONBLOCK); // visitors are taken until none is left
    return Socket(where.listener);
  }

  Status lead() {
    Result<Socket> listener = where.listener >= 0 ? inherited() : listen(resolve(where.address, where.port));
    if (!listener.ok())
      return listener.status();
    std::memcpy(places[0].host, mine.host, sizeof mine.host);
    Status status = accept(*listener, 1, [&](int rank, const Hello &hello) {
      Place &place = places[static_cast<size_t>(rank)];
      place.port = hello.port;
      std::memcpy(place.host, hello.host, sizeof place.host);
      // Other ranks reach a rank of this host at the address of this host.
      if (Address end = Address::ofOtherEnd(peer(rank)); !end.isLoopback())
        std::strncpy(place.address, end.text().c_str(), sizeof place.address - 1);
    });
    const Opening opening;
    for (int rank = 1; rank < where.size && status.ok(); ++rank)
      if (!sendAll(peer(rank), &opening, sizeof opening, until) ||
          !sendAll(peer(rank), places.data(), places.size() * sizeof(Place), until))
        status = failure("rank ", rank, " has ended before training began");
    if (where.mayComeLate)
      result.listener = std::move(*listener);
    return status;
  }

  Status follow() {
    Socket listener;
    // A rank waits at the address by which it reaches rank 0, or at rank 0's address if that is on the same host.
    Status status = reach(0, where.address, where.port, [&](const Socket &toFirst) -> Status {
      Address own = Address::ofThisEnd(toFirst);
      if (own.isLoopback())
        own = Address::ofOtherEnd(toFirst);
      own.setPort(0);
      Result<Socket> made = listen({own});
      if (!made.ok())
        return made.status();
      listener = std::move(*made);
      mine.port = Address::ofThisEnd(listener).port();
      return {};
    });
    if (!status.ok())
      return status;
    if (where.rank == 1 && !isReadable(peer(0), std::min(until, Clock::now() + 2 * untilNoted)))
      note("rank 1 has reached rank 0 and waits for it to begin");
    Opening opening;
    bool opened = receiveAll(peer(0), &opening, sizeof opening, until);
    if (opened && opening.runs != 0) {
      result.runs = true;
      result.listener = std::move(listener);
      return {};
    }
    if (!opened || !receiveAll(peer(0), places.data(), places.size() * sizeof(Place), until))
      return Status::silence(concat("rank ", where.rank, ": rank 0 has ended, or is silent, before all ranks had come"));
    for (int rank = 1; rank < where.rank; ++rank) {
      Place &place = places[static_cast<size_t>(rank)];
      place.address[sizeof place.address - 1] = 0;
      status = reach(rank, *place.address ? place.address : where.address, place.port);
      if (!status.ok())
        return status;
    }
    return accept(listener, where.rank + 1, [](int, const Hello &) {});
  }

  /// Connects to another rank; retries until it answers. `connected` is called before anything is sent.
  Status reach(int rank, const std::string &host, int port,
               const std::function<Status(const Socket &)> &connected = {}) {
    std::string why, place = concat(host, ":", port, rank == 0 ? " (MASTER_ADDR, MASTER_PORT)" : "");
    auto tell = Clock::now() + untilNoted;
    while (true) {
      std::vector<Address> addresses = resolve(host, port);
      if (addresses.empty())
        why = "the host is not known";
      for (const Address &address : addresses)
        if (Socket socket = connectTo(address, std::min(until, Clock::now() + untilNoted)); socket) {
          if (Status status = connected ? connected(socket) : Status(); !status.ok())
            return status;
          if ((peer(rank) = greet(std::move(socket), rank, mine, secret, until, why)))
            return {};
        }
      if (Clock::now() > until)
        return Status::silence(why.empty() ? concat("rank ", where.rank, ": nobody answers at ", place)
                                           : concat("rank ", where.rank, " does not reach rank ", rank, " at ", place, ": ", why));
      if (Clock::now() > tell) {
        note(concat("rank ", where.rank, " waits for rank ", rank, " at ", place, why.empty() ? "" : ": ", why));
        tell = until;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(why.empty() ? 50 : 250));
    }
  }

  const Rendezvous &where;
  const Secret &secret;
  const double patience; ///< seconds
  const Clock::time_point until;
  Hello mine;
  std::vector<Place> places;
  Connections result;
};
} // namespace

bool Rendezvous::isOverMpi() {
  auto isSet = [](const char *name) { return std::getenv(name) != nullptr; };
  return !isSet("TORCHELASTIC_RUN_ID") && (isSet("OMPI_COMM_WORLD_RANK") || isSet("PMI_RANK") || isSet("PMIX_RANK"));
}

Result<std::optional<Rendezvous>> Rendezvous::fromEnvironment() {
  const char *address = std::getenv("MASTER_ADDR");
  for (const char *name : {"RANK", "WORLD_SIZE", "MASTER_PORT"})
    if (!address || !std::getenv(name))
      return std::optional<Rendezvous>();
  if (isOverMpi())
    return std::optional<Rendezvous>();
  auto size = numberIn("WORLD_SIZE", 1, 1 << 20), port = numberIn("MASTER_PORT", 1, 65534);
  auto rank = numberIn("RANK", 0, size.value_or(1) - 1);
  if (!size || !port || !rank)
    return Status::usage(!size   ? "WORLD_SIZE is not a number of ranks"
                         : !port ? "MASTER_PORT is not a port"
                                 : "RANK is not a number below WORLD_SIZE");
  const char *kept = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  Rendezvous where{*rank, *size, address, *port + (kept && std::strcmp(kept, "True") == 0)};
  if (where.rank == 0 && std::getenv("DIVISI_LISTENER")) {
    auto listener = numberIn("DIVISI_LISTENER", 3, 1 << 20);
    if (!listener)
      return Status::usage("DIVISI_LISTENER is not a descriptor");
    where.listener = *listener;
  }
  where.mayComeLate = std::getenv(outlivesLosses) != nullptr;
  where.severalHosts = numberIn("LOCAL_WORLD_SIZE", 1, *size).value_or(*size) < *size;
  return std::optional(where);
}

Result<Connections> divisi::runtime::connectRanks(const Rendezvous &where, const Secret &secret) {
  return Meeting(where, secret).run();
}
