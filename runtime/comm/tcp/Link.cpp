#include "runtime/comm/tcp/Link.h"

#include <cerrno>
#include <cstdlib>
#include <string_view>

using namespace divisi::runtime;

namespace {
/// Whether both ends have the same address. Ends of a connection between networks do not, even if they are on one host.
bool isInside(const Socket &socket) {
  const Address here = Address::ofThisEnd(socket);
  const bool hasHost = here.family() == AF_INET || here.family() == AF_INET6;
  return hasHost && here.text() == Address::ofOtherEnd(socket).text();
}

/// Whether ranks may share memory at all: DIVISI_SHARED_MEMORY=0 forbids it.
bool isShared() {
  const char *setting = std::getenv("DIVISI_SHARED_MEMORY");
  return !setting || std::string_view(setting) != "0";
}

/// Of a call that does not wait.
ssize_t outcome(ssize_t done, bool zeroEnds) {
  if (done < 0)
    return errno == EAGAIN || errno == EINTR ? 0 : -1;
  return done == 0 && zeroEnds ? -1 : done;
}
} // namespace

ssize_t Link::send(const void *data, size_t bytes, bool moreFollows) {
  if (rings)
    return static_cast<ssize_t>(rings->out().write(data, bytes));
  return outcome(::send(socket.get(), data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT | (moreFollows ? MSG_MORE : 0)), false);
}

ssize_t Link::receive(void *data, size_t bytes) {
  if (!rings)
    return outcome(::recv(socket.get(), data, bytes, MSG_DONTWAIT), true);
  if (size_t got = rings->in().read(data, bytes))
    return static_cast<ssize_t>(got);
  char nothing;
  if (outcome(::recv(socket.get(), &nothing, 1, MSG_DONTWAIT), true) == 0)
    return 0;
  const size_t got = rings->in().read(data, bytes); // it wrote this before it ended
  return got > 0 ? static_cast<ssize_t>(got) : -1;
}

Result<std::vector<Link>> divisi::runtime::connectLinks(std::vector<Socket> sockets, int rank, Clock::time_point until) {
  std::vector<Link> links;
  for (Socket &socket : sockets)
    links.emplace_back(std::move(socket));
  auto ended = [](size_t other) { return Status::silence(concat("rank ", other, " has ended, or is silent, before training began")); };
  // Of two ranks the first one offers memory. Offers are small, so that sending them waits for nobody.
  const size_t self = static_cast<size_t>(rank);
  for (size_t other = self + 1; other < links.size(); ++other) {
    Link &link = links[other];
    if (isShared() && isInside(link.socket))
      link.rings = RingPair::make();
    const RingOffer offer = link.rings ? link.rings->offer() : RingOffer();
    if (!sendAll(link.socket, &offer, sizeof offer, until))
      return ended(other);
  }
  for (size_t other = 0; other < self; ++other) {
    Link &link = links[other];
    RingOffer offer;
    if (!receiveAll(link.socket, &offer, sizeof offer, until))
      return ended(other);
    if (isShared() && offer.token != RingOffer().token)
      link.rings = RingPair::open(offer);
    const char isTaken = link.rings != nullptr;
    if (!sendAll(link.socket, &isTaken, 1, until))
      return ended(other);
  }
  for (size_t other = self + 1; other < links.size(); ++other) {
    Link &link = links[other];
    char isTaken = 0;
    if (!receiveAll(link.socket, &isTaken, 1, until))
      return ended(other);
    if (!isTaken)
      link.rings.reset();
    else if (link.rings)
      link.rings->close();
  }
  return links;
}
