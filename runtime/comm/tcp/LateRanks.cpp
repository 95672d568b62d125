#include "runtime/comm/tcp/LateRanks.h"
#include "runtime/comm/tcp/Visitors.h"
#include "runtime/core/BlockSignals.h"

#include <algorithm>
#include <cerrno>
#include <set>
#include <sstream>
#include <unistd.h>

using namespace divisi::runtime;

namespace {
/// Both sides are ready: it takes milliseconds, unless one of them ends.
constexpr auto soon = std::chrono::seconds(3);
constexpr size_t longestText = 1 << 20;
} // namespace

Door::Door(const Rendezvous &where, const Secret &secret, Socket listener)
    : where(where), secret(secret), listener(std::move(listener)) {
  thread = std::thread([this] {
    blockSignals();
    watch();
  });
}

Door::~Door() {
  ends = true;
  thread.join();
}

void Door::watch() {
  Visitors visitors(secret, where.rank, where.size);
  while (!ends) {
    // A stranger cannot make it fail, and a process with another number is turned away.
    (void)visitors
        .receive(listener,
                 [&](Visitor &visitor) -> Status {
                   const Hello &hello = visitor.hello();
                   const int32_t runs = 1;
                   if (hello.size != where.size || hello.rank < 1 || hello.rank >= where.size ||
                       !sendAll(visitor.socket(), &runs, sizeof runs, Clock::now() + soon))
                     return {};
                   Address end = Address::ofOtherEnd(visitor.socket());
                   waiting.push_back({hello.rank, hello.port, end.isLoopback() ? where.address : end.text(),
                                      std::move(visitor.socket())});
                   return {};
                 })
        .ok();
    hear();
  }
}

void Door::hear() {
  for (Guest &guest : waiting) {
    char knock;
    ssize_t got = ::recv(guest.socket.get(), &knock, 1, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
      continue;
    if (got == 1) {
      std::lock_guard lock(mutex);
      std::erase_if(guests, [&](const Guest &other) { return other.rank == guest.rank; });
      guests.push_back(std::move(guest));
      count = guests.size();
    }
    guest.socket = Socket();
  }
  std::erase_if(waiting, [](const Guest &guest) { return !guest.socket; });
}

std::vector<Guest> Door::take() {
  std::lock_guard lock(mutex);
  count = 0;
  return std::exchange(guests, {});
}

bool Door::letIn(const Guest &guest, const std::string &living) {
  const uint64_t length = living.size();
  return sendAll(guest.socket, &length, sizeof length, Clock::now() + soon) &&
         sendAll(guest.socket, living.data(), length, Clock::now() + soon);
}

Status Entry::run(std::map<int, Socket> &others) {
  const Status over = failure("the job has ended before rank ", where.rank, " could take part");
  const char knock = 1;
  uint64_t length = 0;
  if (!sendAll(first, &knock, 1, Clock::now() + soon))
    return over;
  while (!isReadable(first, Clock::now() + soon))
    ; // until the next time that the ranks meet, or end
  if (!receiveAll(first, &length, sizeof length, Clock::now() + soon) || length > longestText)
    return over;
  std::string text(length, 0);
  if (!receiveAll(first, text.data(), length, Clock::now() + soon))
    return over;
  std::set<int> missing;
  std::istringstream words(text);
  for (int rank; words >> rank;)
    if (rank > 0 && rank < where.size && rank != where.rank)
      missing.insert(rank);
  Visitors visitors(secret, where.rank, where.size);
  for (auto until = Clock::now() + soon; !missing.empty() && Clock::now() < until;)
    (void)visitors
        .receive(listener,
                 [&](Visitor &visitor) -> Status {
                   if (missing.erase(visitor.hello().rank) > 0)
                     others[visitor.hello().rank] = std::move(visitor.socket());
                   return {};
                 })
        .ok();
  others[0] = std::move(first);
  return {};
}

std::vector<Guest> divisi::runtime::guestsOf(const std::string &text) {
  std::vector<Guest> all;
  std::istringstream words(text);
  for (Guest guest; words >> guest.rank >> guest.port >> guest.address;)
    all.push_back({guest.rank, guest.port, guest.address});
  return all;
}

Socket divisi::runtime::visit(const Guest &guest, const Rendezvous &where, const Secret &secret) {
  Hello mine;
  mine.rank = where.rank;
  mine.size = where.size;
  ::gethostname(mine.host, sizeof mine.host - 1);
  const auto until = Clock::now() + soon;
  std::string why;
  for (const Address &address : resolve(guest.address, guest.port))
    if (Socket socket = connectTo(address, until); socket)
      if (Socket known = greet(std::move(socket), guest.rank, mine, secret, until, why))
        return known;
  return Socket();
}
