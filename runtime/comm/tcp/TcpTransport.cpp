#include "runtime/comm/tcp/TcpTransport.h"
#include "runtime/core/Cores.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

using namespace divisi::runtime;

namespace {
constexpr int64_t farewell = -1;
/// The largest message: no arena is larger.
constexpr uint64_t longestMessage = uint64_t(1) << 46;
/// The memory for a message that was not requested yet grows with the bytes received.
constexpr size_t leastKept = size_t(1) << 20;
/// Bytes sent to or received from one rank before other ranks are served.
constexpr size_t turn = size_t(4) << 20;
} // namespace

/// Stops using the memory of an incomplete message.
struct TcpTransport::Ticket final : Message {
  Ticket(TcpTransport &owner, Started message) : owner(owner), message(std::move(message)) {}
  ~Ticket() override {
    std::lock_guard lock(owner.turns_);
    message->data = nullptr;
  }
  bool poll() override {
    std::lock_guard lock(owner.turns_);
    if (!message->done)
      owner.progress();
    return message->done;
  }
  bool isLost() const override {
    std::lock_guard lock(owner.turns_);
    return message->lost;
  }

  TcpTransport &owner;
  Started message;
};

TcpTransport::TcpTransport(const Rendezvous &where, Connections connections, std::vector<Link> links, Secret known)
    : Transport(where.rank, where.size), peers(static_cast<size_t>(where.size)),
      share(std::max(1, coresAllowed() / std::max(1, connections.onHost))), local_(connections.local),
      hosts_(std::move(connections.hosts)), where(where), secret(std::move(known)) {
  if (connections.runs) {
    entry.emplace(this->where, secret, std::move(connections.peers[0]), std::move(connections.listener));
    for (size_t i = 0; i < peers.size(); ++i)
      if (static_cast<int>(i) != where.rank)
        peers[i].ended = peers[i].spared = peers[i].gone = true;
    return;
  }
  for (size_t i = 0; i < peers.size(); ++i)
    peers[i].link = std::move(links[i]);
  if (where.rank == 0 && connections.listener)
    door.emplace(this->where, secret, std::move(connections.listener));
}

TcpTransport::~TcpTransport() {
  // Sends what other ranks still wait for, unless everything has failed.
  auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  auto isLeft = [](const Peer &peer) { return !peer.outgoing.empty(); };
  while (!failed() && std::any_of(peers.begin(), peers.end(), isLeft) && std::chrono::steady_clock::now() < until) {
    progress();
    std::this_thread::yield();
  }
}

void TcpTransport::terminate(int) {
  std::lock_guard lock(turns_);
  std::string why = status().message();
  auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  for (int rank = 0; rank < size(); ++rank) {
    Peer &to = peer(rank);
    // Nothing can be inserted into a message. The other rank notices the end of the connection.
    if (!to.link || (!to.outgoing.empty() && to.outgoing.front().sent > 0))
      continue;
    to.outgoing.clear();
    post(rank, farewell, why.data(), why.size());
    while (!to.outgoing.empty() && std::chrono::steady_clock::now() < until) {
      write(rank, to);
      std::this_thread::yield();
    }
  }
}

TcpTransport::Started TcpTransport::post(int to, int64_t tag, const void *data, size_t bytes) {
  auto message = std::make_shared<Half>(Half{const_cast<char *>(static_cast<const char *>(data)), bytes});
  Peer &target = peer(to);
  if (target.gone) {
    message->done = message->lost = true;
    return message;
  }
  if (to != rank()) {
    target.outgoing.push_back({{bytes, tag}, message});
    if (target.ended) // rings do not tell
      lost(to, target);
    else
      write(to, target);
    return message;
  }
  // A message to itself is received immediately.
  target.header = {bytes, tag};
  opened(to, target);
  if (failed())
    return message;
  if (!target.target)
    target.kept.resize(bytes);
  std::memcpy(target.target ? target.target->data : target.kept.data(), data, bytes);
  finished(to, target);
  message->done = true;
  return message;
}

TcpTransport::Started TcpTransport::want(int from, int64_t tag, void *data, size_t bytes) {
  auto message = std::make_shared<Half>(Half{static_cast<char *>(data), bytes});
  Peer &source = peer(from);
  auto early = source.early.find(tag);
  if (early == source.early.end() || early->second.empty()) {
    if (source.gone) {
      message->done = message->lost = true;
      return message;
    }
    source.wanted[tag].push_back(message);
    if (source.ended)
      lost(from, source);
    return message;
  }
  deliver(from, early->second.front(), *message);
  early->second.pop_front();
  return message;
}

void TcpTransport::deliver(int from, const std::vector<char> &kept, Half &to) {
  if (kept.size() != to.bytes)
    return fail(
        failure("rank ", rank(), " expected ", to.bytes, " bytes of rank ", from, ", which sent ", kept.size()));
  if (to.data)
    std::memcpy(to.data, kept.data(), kept.size());
  to.done = true;
}

std::unique_ptr<Message> TcpTransport::send(int to, int tag, const void *data, size_t bytes) {
  std::unique_lock lock(turns_);
  Started message = post(to, tag, data, bytes);
  lock.unlock();
  return std::make_unique<Ticket>(*this, std::move(message));
}

std::unique_ptr<Message> TcpTransport::receive(int from, int tag, void *data, size_t bytes) {
  std::unique_lock lock(turns_);
  Started message = want(from, tag, data, bytes);
  lock.unlock();
  return std::make_unique<Ticket>(*this, std::move(message));
}

void TcpTransport::startSend(int to, const void *data, size_t bytes) {
  std::lock_guard lock(turns_);
  if (Started message = post(to, 0, data, bytes); !message->done)
    plain.push_back(std::move(message));
}

void TcpTransport::startReceive(int from, void *data, size_t bytes) {
  std::lock_guard lock(turns_);
  if (Started message = want(from, 0, data, bytes); !message->done)
    plain.push_back(std::move(message));
}

bool TcpTransport::poll() {
  std::lock_guard lock(turns_);
  if (!plain.empty())
    progress();
  std::erase_if(plain, [](const Started &message) { return message->done; });
  return plain.empty();
}

void TcpTransport::cancel() {
  std::lock_guard lock(turns_);
  for (const Started &message : plain)
    message->data = nullptr;
  plain.clear();
}

int64_t TcpTransport::received(int from) const {
  std::lock_guard lock(turns_);
  return peers[static_cast<size_t>(from)].bytes;
}

Status TcpTransport::lookAround() {
  std::lock_guard lock(turns_);
  progress();
  for (int rank = 0; rank < size(); ++rank)
    if (peer(rank).ended && !peer(rank).spared && !failed())
      fail(failure("the connection to rank ", rank, " has ended"));
  return status();
}

void TcpTransport::progress() {
  for (int rank = 0; rank < size(); ++rank)
    try {
      if (Peer &with = peer(rank); with.link) {
        write(rank, with);
        read(rank, with);
      }
    } catch (const std::bad_alloc &) {
      fail(failure("no memory for what rank ", rank, " sends"));
    }
}

void TcpTransport::write(int rank, Peer &to) {
  for (size_t sent = 0; sent < turn && !to.outgoing.empty();) {
    Outgoing &next = to.outgoing.front();
    if (!next.message->data && next.message->bytes > 0) { // canceled, after a failure
      to.outgoing.clear();
      return lost(rank, to);
    }
    bool heads = next.sent < sizeof(Header);
    const char *from = heads ? reinterpret_cast<const char *>(&next.header) + next.sent
                             : next.message->data + (next.sent - sizeof(Header));
    size_t left = (heads ? sizeof(Header) : sizeof(Header) + next.message->bytes) - next.sent;
    if (left > 0) {
      const ssize_t done = to.link.send(from, left, heads);
      if (done == 0)
        return;
      if (done < 0) {
        read(rank, to); // the rank may have sent the reason
        return lost(rank, to);
      }
      next.sent += static_cast<size_t>(done);
      sent += static_cast<size_t>(done);
    }
    if (next.sent == sizeof(Header) + next.message->bytes) {
      next.message->done = true;
      to.outgoing.pop_front();
    }
  }
}

void TcpTransport::read(int rank, Peer &from) {
  for (size_t got = 0; got < turn && !from.ended && !failed();) {
    bool heads = from.received < sizeof(Header);
    size_t at = heads ? from.received : from.received - sizeof(Header);
    size_t left = (heads ? sizeof(Header) : from.header.bytes) - at;
    if (!heads && !from.target) {
      if (at == from.kept.size())
        from.kept.resize(at + std::min(left, std::max(leastKept, at)));
      left = from.kept.size() - at;
    }
    char *to = heads ? reinterpret_cast<char *>(&from.header) : (from.target ? from.target->data : from.kept.data());
    if (!heads && from.target && !to)
      return lost(rank, from); // canceled, after a failure
    const ssize_t done = from.link.receive(to + at, left);
    if (done == 0)
      return;
    if (done < 0)
      return lost(rank, from);
    from.received += static_cast<size_t>(done);
    from.bytes += done;
    got += static_cast<size_t>(done);
    if (heads && from.received == sizeof(Header))
      opened(rank, from);
    if (!failed() && from.received == sizeof(Header) + from.header.bytes)
      finished(rank, from);
  }
}

void TcpTransport::opened(int rank, Peer &from) {
  auto [bytes, tag] = from.header;
  if (bytes == 0 || bytes > longestMessage || tag < farewell)
    return fail(failure("rank ", rank, " sent what is no message of this program"));
  auto wanted = from.wanted.find(tag);
  from.target = nullptr;
  if (wanted != from.wanted.end() && !wanted->second.empty()) {
    from.target = wanted->second.front();
    wanted->second.pop_front();
    if (from.target->bytes != bytes)
      return fail(failure("rank ", this->rank(), " expected ", from.target->bytes, " bytes of rank ", rank,
                          ", which sent ", bytes));
    return;
  }
  from.kept.clear();
}

void TcpTransport::finished(int rank, Peer &from) {
  from.received = 0;
  if (from.target) {
    from.target->done = true;
    from.target = nullptr;
  } else if (from.header.tag == farewell && from.spared) { // it says why itself
    lost(rank, from);
  } else if (from.header.tag == farewell) {
    std::string why = printable({from.kept.data(), from.kept.size()});
    fail(failure(why.starts_with("rank ") ? "" : concat("rank ", rank, ": "), why));
  } else if (std::deque<Started> &wanted = from.wanted[from.header.tag]; !wanted.empty()) { // requested meanwhile
    deliver(rank, from.kept, *wanted.front());
    wanted.pop_front();
  } else {
    from.early[from.header.tag].push_back(std::move(from.kept));
    from.kept = {};
  }
}

/// The end of a connection is a failure only if something is still expected from the rank.
void TcpTransport::lost(int rank, Peer &with) {
  with.ended = true;
  if (with.spared)
    return forget(with);
  bool wanted = with.target || with.received > 0 || !with.outgoing.empty();
  for (const auto &[tag, messages] : with.wanted)
    wanted |= !messages.empty();
  if (wanted && !failed())
    fail(failure("the connection to rank ", rank, " has ended"));
}

void TcpTransport::forget(Peer &with) {
  auto giveUp = [](const Started &message) { message->done = message->lost = true; };
  if (with.target)
    giveUp(with.target);
  for (const Outgoing &outgoing : with.outgoing)
    giveUp(outgoing.message);
  for (const auto &[tag, messages] : with.wanted)
    for (const Started &message : messages)
      giveUp(message);
  with.target = nullptr;
  with.outgoing.clear();
  with.wanted.clear();
  with.kept.clear();
  with.received = 0;
  with.ended = with.gone = true;
  with.link = Link();
}

void TcpTransport::spare(const std::vector<bool> &ranks) {
  std::lock_guard lock(turns_);
  sparable = ranks;
  for (size_t rank = 0; rank < peers.size(); ++rank)
    if (Peer &with = peers[rank]; (with.spared = ranks[rank] || with.gone) && with.ended && !with.gone)
      forget(with); // before it was spared
}

bool TcpTransport::isSpared(int rank) const {
  std::lock_guard lock(turns_);
  return rank >= 0 && rank < size() && peers[static_cast<size_t>(rank)].spared;
}

bool TcpTransport::isLost(int rank) const {
  std::lock_guard lock(turns_);
  return peers[static_cast<size_t>(rank)].gone;
}

bool TcpTransport::hasEnded(int rank) const {
  std::lock_guard lock(turns_);
  return peers[static_cast<size_t>(rank)].ended;
}

void TcpTransport::drop(int rank) {
  std::lock_guard lock(turns_);
  Peer &with = peer(rank);
  if (with.spared && !with.gone)
    forget(with);
  if (with.gone)
    with.early.clear(); // it was perhaps lost within a conversation, whose rest must not answer another one
}

void TcpTransport::attach(int rank, Socket socket) {
  configure(socket);
  std::lock_guard lock(turns_);
  Peer fresh;
  fresh.spared = sparable[static_cast<size_t>(rank)];
  fresh.link = Link(std::move(socket));
  peer(rank) = std::move(fresh);
}

Status TcpTransport::enter() {
  std::map<int, Socket> others;
  Status status = entry->run(others);
  if (!status.ok())
    return status;
  for (auto &[rank, socket] : others)
    attach(rank, std::move(socket));
  entry.reset();
  for (int other = 0; other < size(); ++other)
    if (isLost(other) && !sparable[static_cast<size_t>(other)])
      return failure("rank ", rank(), " was let in, but rank ", other, " has not come");
  return {};
}

std::string TcpTransport::newcomers() {
  guests = door->take();
  std::string text;
  for (const Guest &guest : guests)
    text += concat(guest.rank, " ", guest.port, " ", guest.address, "\n");
  return text;
}

std::vector<int> TcpTransport::meet(const std::string &newcomers) {
  std::vector<int> ranks;
  if (rank() == 0) {
    std::string living;
    for (int other = 0; other < size(); ++other)
      living += concat(isLost(other) ? "" : concat(other, " "));
    for (Guest &guest : guests) {
      drop(guest.rank); // the one that it stands for was perhaps not missed yet
      if (door->letIn(guest, living))
        attach(guest.rank, std::move(guest.socket));
      ranks.push_back(guest.rank);
    }
    guests.clear();
    return ranks;
  }
  for (const Guest &guest : guestsOf(newcomers)) {
    drop(guest.rank);
    if (Socket socket = visit(guest, where, secret))
      attach(guest.rank, std::move(socket));
    ranks.push_back(guest.rank);
  }
  return ranks;
}

Result<std::unique_ptr<Transport>> divisi::runtime::joinByTcp(const Rendezvous &where) {
  Result<Secret> secret = Secret::ofJob();
  if (!secret.ok())
    return secret.status();
  Result<Connections> connections = connectRanks(where, *secret);
  if (!connections.ok())
    return connections.status();
  std::vector<Link> links;
  if (!connections->runs) {
    Result<std::vector<Link>> connected = connectLinks(std::move(connections->peers), where.rank, after(where.patience));
    if (!connected.ok())
      return connected.status();
    links = std::move(*connected);
  }
  return std::unique_ptr<Transport>(
      std::make_unique<TcpTransport>(where, std::move(*connections), std::move(links), std::move(*secret)));
}
