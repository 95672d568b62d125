// What an all_reduce over ranks of several hosts takes by each algorithm: the one price by which plans are compared and
// programs choose. (Plans for CPUs add what is sent that no cache holds: it changes no choice.)
#ifndef DIVISI_ALL_REDUCE_H
#define DIVISI_ALL_REDUCE_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace divisi {

/// The links between ranks. Messages over one link go one after the other in each direction, and latencies overlap.
struct HostLinks {
  struct Link {
    double latency;   // of a message, seconds
    double bandwidth; // bytes/s
    bool operator==(const Link &) const = default;
  };
  Link inside{10e-6, 2e9};    // of a rank, to the ranks of its host: through shared memory, when a thread must wake up
  Link across{50e-6, 1.25e9}; // of a host, to other hosts: 10 Gb/s Ethernet
  bool operator==(const HostLinks &) const = default;
};

/// The algorithms, of which the first is taken if two are equally fast.
///   ring          reduce_scatter and all_gather around all members
///   hierarchical  reduce_scatter inside of each host, over as many chunks as the host with the fewest members has; an
///                 all_reduce around the hosts for each chunk; all_gather inside of each host
///   tree          recursive doubling inside of each host and between the first members of the hosts, which then
///                 broadcast in theirs; where members are no power of two, the last ones hand theirs to others
enum class AllReduceWay { ring, hierarchical, tree };

/// How the members of an all_reduce lie on hosts. If several groups communicate at once and lie differently, these are
/// the figures of the slowest one.
struct AllReduceGroup {
  int64_t members = 1;
  int64_t hosts = 1;
  int64_t fewest = 1, most = 1; // members on one host
  HostLinks links;              // `across`: the part of a host's link that one group has
  double ringPass = 0;          // latency of n - 1 hops around the members in their order, without the fastest of its n
  double ringBandwidth = std::numeric_limits<double>::infinity(); // at which each member sends around them

  /// The rounds of recursive doubling.
  static int64_t doublings(int64_t members) {
    int64_t rounds = 0;
    while (members >> (rounds + 1))
      ++rounds;
    return rounds + (members > (int64_t(1) << rounds) ? 2 : 0);
  }
  /// The rounds of a broadcast by a binomial tree.
  static int64_t broadcasts(int64_t members) {
    int64_t rounds = 0;
    while ((int64_t(1) << rounds) < members)
      ++rounds;
    return rounds;
  }

  /// Seconds for operands of `bytes` bytes.
  double seconds(AllReduceWay way, double bytes) const {
    const HostLinks::Link &inside = links.inside, &across = links.across;
    const auto n = static_cast<double>(members), h = static_cast<double>(hosts), m = static_cast<double>(most);
    switch (way) {
    case AllReduceWay::ring:
      return 2 * ringPass + 2 * (n - 1) / n * bytes / ringBandwidth;
    case AllReduceWay::hierarchical:
      return 2 * (m - 1) * (inside.latency + bytes / static_cast<double>(fewest) / inside.bandwidth) +
             2 * (h - 1) * (across.latency + bytes / h / across.bandwidth);
    case AllReduceWay::tree: {
      // A round combines the whole message, which a ring does but once.
      auto round = [&](const HostLinks::Link &link) {
        return link.latency + bytes / link.bandwidth + bytes / combined;
      };
      return static_cast<double>(doublings(most)) * round(inside) +
             static_cast<double>(doublings(hosts)) * round(across) +
             (hosts > 1 ? static_cast<double>(broadcasts(most)) * (inside.latency + bytes / inside.bandwidth) : 0);
    }
    }
    return 0;
  }
  /// The fastest one.
  AllReduceWay best(double bytes) const {
    AllReduceWay best = AllReduceWay::ring;
    for (AllReduceWay way : {AllReduceWay::hierarchical, AllReduceWay::tree}) {
      const bool exists = way == AllReduceWay::tree || (hosts > 1 && most > 1);
      if (exists && seconds(way, bytes) < seconds(best, bytes))
        best = way;
    }
    return best;
  }
  double seconds(double bytes) const { return seconds(best(bytes), bytes); }
  bool operator==(const AllReduceGroup &) const = default;

  /// The bytes that the member which sends the most sends.
  double bytesSent(AllReduceWay way, double bytes) const {
    const auto n = static_cast<double>(members), h = static_cast<double>(hosts), m = static_cast<double>(most);
    switch (way) {
    case AllReduceWay::ring:
      return 2 * (n - 1) / n * bytes;
    case AllReduceWay::hierarchical:
      return 2 * (std::min(m - 1, static_cast<double>(fewest)) + (h - 1) / h) * bytes / static_cast<double>(fewest);
    case AllReduceWay::tree: {
      auto sent = [](int64_t members) {
        return std::max<int64_t>(doublings(members) - (members & (members - 1) ? 1 : 0), 0);
      };
      return static_cast<double>(sent(most) + sent(hosts) + (hosts > 1 ? broadcasts(most) : 0)) * bytes;
    }
    }
    return 0;
  }
  double bytesSent(double bytes) const { return bytesSent(best(bytes), bytes); }

private:
  /// Bytes of a message that a core combines in a second.
  static constexpr double combined = 4e9;
};

} // namespace divisi

#endif // DIVISI_ALL_REDUCE_H
