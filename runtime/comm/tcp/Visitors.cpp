#include "runtime/comm/tcp/Visitors.h"

#include <cerrno>
#include <iostream>
#include <poll.h>

using namespace divisi::runtime;

namespace {
constexpr size_t most = 256;   ///< connections, beside one for each rank
constexpr int64_t named = 5;   ///< strangers that are reported
constexpr int turnsLast = 200; ///< milliseconds
} // namespace

Visitors::~Visitors() {
  if (strangers > named)
    std::cerr << concat("note: rank ", rank, " turned away ", strangers - named, " more strangers\n") << std::flush;
}

Status Visitors::receive(const Socket &listener, const std::function<Status(Visitor &)> &welcome) {
  std::vector<pollfd> ready = {{listener.get(), POLLIN, 0}};
  for (Visitor &visitor : all)
    ready.push_back({visitor.socket().get(), POLLIN, 0});
  if (::poll(ready.data(), ready.size(), turnsLast) < 0)
    return {};
  for (size_t i = 0; i < all.size(); ++i) {
    Visitor &visitor = all[i];
    if (ready[i + 1].revents != 0)
      visitor.listen();
    if (visitor.state() == Visitor::State::Known) {
      Status status = welcome(visitor);
      visitor.socket() = Socket();
      if (!status.ok())
        return status;
    } else if (visitor.state() == Visitor::State::Stranger) {
      turnAway(visitor, visitor.why());
    } else if (visitor.isLate()) {
      turnAway(visitor, "took too long to say who it is");
    }
  }
  std::erase_if(all, [](Visitor &visitor) { return !visitor.socket(); });
  if (ready[0].revents != 0)
    take(listener);
  return {};
}

void Visitors::take(const Socket &listener) {
  for (size_t i = 0; i < most; ++i) {
    Socket socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    // If there are too many open files, the oldest visitor is dropped, too.
    bool full = socket ? all.size() >= most + static_cast<size_t>(size) : errno == EMFILE || errno == ENFILE;
    if (full && !all.empty())
      all.erase(all.begin());
    if (!socket)
      return;
    all.emplace_back(std::move(socket), secret, rank);
  }
}

void Visitors::turnAway(Visitor &visitor, const std::string &why) {
  if (!why.empty() && ++strangers <= named) {
    Address from = Address::ofOtherEnd(visitor.socket());
    std::cerr << concat("note: rank ", rank, " turned away ", from.length > 0 ? from.text() : "one that has gone",
                        ": it ", why, secret.given || from.isHere() ? "" : concat(" (", secretRemedy, ")"), "\n")
              << std::flush;
  }
  visitor.socket() = Socket();
}
