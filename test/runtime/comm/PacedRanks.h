//===- PacedRanks.h - threads as ranks on links of given speed --*- C++ -*-===//
#ifndef DIVISI_TEST_RUNTIME_COMM_PACEDRANKS_H
#define DIVISI_TEST_RUNTIME_COMM_PACEDRANKS_H

#include "divisi/all_reduce.h"
#include "runtime/comm/Transport.h"

#include <chrono>
#include <map>

namespace divisi::test {

/// Connects ranks that are threads of one process by links that take time. Every rank has a link, and every host has
/// one to the others; in each direction messages go over it one after the other. A message between hosts goes over four
/// of them, and each is free for the next one when its bytes have passed. Messages wait at the receiver, as in a
/// network's buffers.
class PacedHub {
public:
  /// `hosts`: numbers of hosts by rank. `known`: those that collectives regard.
  PacedHub(std::vector<int> hosts, const HostLinks &links, std::vector<int> known);
  PacedHub(const std::vector<int> &hosts, const HostLinks &links) : PacedHub(hosts, links, hosts) {}
  ~PacedHub();

  int size() const { return static_cast<int>(ends.size()); }
  runtime::Transport &rank(int number);
  /// Sent from a host to others so far.
  int64_t bytesAcross() const { return across; }

private:
  using Clock = std::chrono::steady_clock;
  class End;
  struct Tagged;
  /// Messages from one rank to another under one tag.
  struct Channel {
    struct Arrival {
      std::vector<char> data;
      Clock::time_point at;
    };
    std::map<int64_t, Arrival> arrivals; ///< by number
    int64_t sent = 0, received = 0;      ///< how many were begun
  };
  /// A link in one direction: when it is busy, from and to. Packets pass as they come, whichever message was sent first.
  struct Link {
    std::map<Clock::time_point, Clock::time_point> busy;
    /// Returns when a packet that is there at a time begins to pass.
    Clock::time_point pass(Clock::time_point at, Clock::duration takes);
  };
  using Key = std::tuple<int, int, int>; ///< from, to, tag

  /// Returns when the last byte has left.
  Clock::time_point send(int from, int to, int tag, const void *data, size_t bytes);
  /// Whether message `number` has come; then copies it.
  bool take(const Key &key, int64_t number, void *data, size_t bytes);
  int64_t expect(const Key &key);

  std::vector<int> hosts, known;
  HostLinks links;
  std::mutex mutex;
  std::map<Key, Channel> channels;
  std::map<int, Link> out, in, hostOut, hostIn;
  std::atomic<int64_t> across = 0;
  std::vector<std::unique_ptr<End>> ends;
};

} // namespace divisi::test

#endif // DIVISI_TEST_RUNTIME_COMM_PACEDRANKS_H
