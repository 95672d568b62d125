//===- LateRanks.h - ranks that come while a job runs -----------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_TCP_LATERANKS_H
#define DIVISI_RUNTIME_COMM_TCP_LATERANKS_H

#include "runtime/comm/tcp/Rendezvous.h"

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace divisi::runtime {

/// A rank that has come in place of one that was lost, and where it waits for the others.
struct Guest {
  int rank = 0, port = 0;
  std::string address;
  Socket socket = Socket(); ///< of rank 0
};

/// Where rank 0 of a running job waits for ranks that come late. They prove that they know the secret, as at the
/// beginning, and knock when they are ready to train.
class Door {
public:
  /// All must outlive the object.
  Door(const Rendezvous &where, const Secret &secret, Socket listener);
  ~Door();
  Door(const Door &) = delete;
  Door &operator=(const Door &) = delete;

  /// Those that have knocked: the newest for each rank.
  bool hasGuests() const { return count > 0; }
  std::vector<Guest> take();
  /// Tells a guest who will connect to it: the ranks in the text. False if it has ended meanwhile.
  static bool letIn(const Guest &guest, const std::string &living);

private:
  void watch();
  void hear();

  const Rendezvous &where;
  const Secret &secret;
  Socket listener;
  std::vector<Guest> waiting; ///< of the thread: those that have not knocked
  std::mutex mutex;
  std::vector<Guest> guests;
  std::atomic<size_t> count = 0; ///< of them
  std::atomic<bool> ends = false;
  std::thread thread;
};

/// The other side: a rank that has come late.
class Entry {
public:
  /// `first` is the connection to rank 0. References must outlive the object.
  Entry(const Rendezvous &where, const Secret &secret, Socket first, Socket listener)
      : where(where), secret(secret), first(std::move(first)), listener(std::move(listener)) {}
  /// Knocks, waits to be let in, and then for the others; one that does not come is left out. Fails if the job has
  /// ended.
  Status run(std::map<int, Socket> &others);

private:
  const Rendezvous &where;
  const Secret &secret;
  Socket first, listener;
};

/// The guests in a text, a line for each: rank, port and address.
std::vector<Guest> guestsOf(const std::string &text);
/// A connection to a guest; no socket if it does not answer soon.
Socket visit(const Guest &guest, const Rendezvous &where, const Secret &secret);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_TCP_LATERANKS_H
