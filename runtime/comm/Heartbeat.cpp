#include "runtime/comm/Heartbeat.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <unistd.h>

using namespace divisi::runtime;

namespace {
std::string lostMessage(int rank, const std::string &host, double seconds) {
  return concat("nothing has been heard of rank ", rank, host.empty() ? "" : concat(" (", host, ")"), " for ",
                std::llround(seconds), " s");
}

void say(const std::string &line) { std::cerr << concat(line, "\n") << std::flush; }
} // namespace

Heartbeat::Heartbeat(Transport &transport, Limits limits, std::function<bool()> hurried)
    : transport(transport), limits(limits), hurried(std::move(hurried)) {
  this->limits.named = std::min(limits.named, limits.timeout);
  char name[sizeof Beat::host] = {};
  ::gethostname(name, sizeof name - 1);
  host = name;
  for (int rank = 0; rank < transport.size(); ++rank)
    if (rank != transport.rank() && (rank == 0 || transport.rank() == 0))
      others.emplace_back().rank = rank;
  thread = std::thread([this] { watch(); });
}

void Heartbeat::stop(Phase now) {
  {
    std::lock_guard lock(mutex);
    phase = now;
  }
  changed.notify_one();
  if (thread.joinable())
    thread.join();
}

Status Heartbeat::end() {
  stop(Phase::Ends);
  return transport.status();
}

void Heartbeat::watch() {
  using Seconds = std::chrono::duration<double>;
  auto last = Clock::now();
  for (Other &other : others)
    tell(other, Beat::Lives);
  while (true) {
    {
      // At the end of the job there is work every millisecond.
      std::unique_lock lock(mutex);
      changed.wait_for(lock, Seconds(leaves ? 0.001 : limits.period / 2),
                       [&] { return phase != (leaves ? Phase::Ends : Phase::Trains); });
      leaves = phase == Phase::Ends;
      if (phase == Phase::Over)
        break;
    }
    auto now = Clock::now();
    // A longer time was this process's own pause: it was stopped, or got no processor.
    double seconds = std::min(Seconds(now - last).count(), limits.period);
    last = now;
    lookAround(seconds);
    if (transport.failed() || isOver())
      break;
  }
  others.clear(); // cancels incomplete messages
}

void Heartbeat::lookAround(double seconds) {
  Other *lost = nullptr;
  {
    std::unique_lock<Turns> turn;
    if (Turns *turns = transport.turns())
      turn = std::unique_lock(*turns);
    for (Other &other : others) {
      if (transport.failed())
        return;
      look(other, seconds);
      if (!lost && isLost(other))
        lost = &other;
    }
  }
  if (lost && !transport.failed())
    giveUp(*lost);
}

void Heartbeat::look(Other &other, double seconds) {
  bool lost = transport.isLost(other.rank) || (other.coming && other.coming->isLost()) ||
              (other.going && other.going->isLost());
  if (bool before = std::exchange(other.lost, lost);
      lost || before) { // it may have come again: nothing is on its way from before
    other.coming.reset();
    other.going.reset();
    other.silence = 0;
    other.named = false;
    other.untold.clear();
    other.ended = other.toldEnd = lost;
    if (lost)
      return;
    for (Other &third : others)
      std::erase_if(third.untold, [&](const Beat &beat) { return beat.lost == other.rank; });
  }
  if (!other.coming && !other.ended)
    other.coming = transport.receive(other.rank, transport.heartbeatTag(), &other.in, sizeof other.in);
  int64_t bytes = transport.received(other.rank);
  bool heard = std::exchange(other.bytes, bytes) != bytes;
  while (other.coming && other.coming->poll()) {
    if (other.coming->isLost()) // meanwhile: the next look takes notice
      return;
    heard = true;
    hear(other);
    other.coming.reset();
    if (!other.ended)
      other.coming = transport.receive(other.rank, transport.heartbeatTag(), &other.in, sizeof other.in);
  }
  other.silence = heard || (other.ended && leaves) ? 0 : other.silence + seconds;
  if (heard && std::exchange(other.named, false))
    say(concat("note: rank ", transport.rank(), ": ", describe(other), " is heard of again"));
  // Rank 0 reports its end when all others have reported theirs.
  bool all = std::all_of(others.begin(), others.end(), [](const Other &o) { return o.ended; });
  if (!tellLosses(other))
    return;
  if (leaves && !other.toldEnd && (transport.rank() != 0 || all)) {
    tell(other, Beat::Ends);
    other.toldEnd = true;
  } else if (!other.toldEnd && std::chrono::duration<double>(Clock::now() - other.told).count() >= limits.period) {
    tell(other, Beat::Lives);
  }
}

void Heartbeat::hear(Other &other) {
  other.in.host[sizeof other.in.host - 1] = 0;
  std::string name = printable(other.in.host);
  if (other.in.kind == Beat::Lost && transport.isSpared(other.in.lost))
    return transport.drop(other.in.lost);
  if (other.in.kind == Beat::Lost) {
    lost_ = true;
    return transport.fail(failure(lostMessage(other.in.lost, name, other.in.silence)));
  }
  other.host = name;
  other.ended = other.in.kind == Beat::Ends;
}

void Heartbeat::tell(Other &other, Beat::Kind kind) {
  other.out = {kind};
  host.copy(other.out.host, sizeof other.out.host - 1);
  send(other);
}

void Heartbeat::send(Other &other) {
  other.told = Clock::now();
  other.going = transport.send(other.rank, transport.heartbeatTag(), &other.out, sizeof other.out);
}

bool Heartbeat::tellLosses(Other &other) {
  while (!other.going || other.going->poll()) {
    if (other.untold.empty())
      return true;
    other.out = other.untold.front();
    other.untold.erase(other.untold.begin());
    send(other);
  }
  return false;
}

/// Reports a rank that is silent. Returns whether the job must be given up for it.
bool Heartbeat::isLost(Other &other) {
  if (other.silence < limits.named || transport.failed())
    return false;
  if (!std::exchange(other.named, true))
    say(concat("warning: rank ", transport.rank(), ": ",
               other.ended ? concat(describe(other), " has ended before this one")
                           : lostMessage(other.rank, other.host, other.silence),
               transport.isSpared(other.rank) ? ": the others go on without it" : ": the job ends",
               " when that lasts ", limits.timeout, " s (--timeout)"));
  return other.silence >= limits.timeout || hurried();
}

void Heartbeat::giveUp(const Other &lost) {
  Beat beat{Beat::Lost, lost.rank, lost.silence};
  lost.host.copy(beat.host, sizeof beat.host - 1);
  std::vector<Other *> told;
  for (Other &other : others)
    if (other.rank != lost.rank && !other.ended && !other.lost) {
      other.untold.push_back(beat);
      told.push_back(&other);
    }
  // One whose last heartbeat has not left yet is told by a later look, if the job goes on.
  auto until = Clock::now() + std::chrono::duration<double>(limits.period);
  auto isUntold = [&](Other *other) { return !tellLosses(*other); };
  while (std::count_if(told.begin(), told.end(), isUntold) && Clock::now() < until && !transport.failed())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (transport.isSpared(lost.rank))
    return transport.drop(lost.rank);
  lost_ = true;
  transport.fail(failure(lostMessage(lost.rank, lost.host, lost.silence)));
}

bool Heartbeat::isOver() {
  return leaves && std::all_of(others.begin(), others.end(), [](Other &other) {
           return other.lost || (other.ended && other.toldEnd && other.going->poll());
         });
}

std::string Heartbeat::describe(const Other &other) const {
  return concat("rank ", other.rank, other.host.empty() ? "" : concat(" (", other.host, ")"));
}
