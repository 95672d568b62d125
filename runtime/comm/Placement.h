//===- Placement.h - the hosts of ranks -------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_PLACEMENT_H
#define DIVISI_RUNTIME_COMM_PLACEMENT_H

#include "divisi/all_reduce.h"
#include "runtime/core/Mesh.h"

#include <vector>

namespace divisi::runtime {

/// The members of a collective by host: hosts in the order of their first members.
struct HostMembers {
  std::vector<std::vector<int>> ranks;
  int64_t mine = 0, position = 0; ///< this rank's host, and its place there

  const std::vector<int> &own() const { return ranks[static_cast<size_t>(mine)]; }
  int64_t fewest() const; ///< members on one host
};

/// Where the ranks of a program are, equal on all ranks.
struct Placement {
  std::vector<int> hosts; ///< by rank: a number of its host; empty: all are on one
  HostLinks links = {};

  HostMembers membersOf(const std::vector<int> &group, int rank) const;
  /// The groups over these axes, all of which communicate at once, as a price needs them: this rank's, with the largest
  /// share of each link that groups have.
  AllReduceGroup groupOf(const Mesh &mesh, int rank, std::span<const int64_t> axes) const;

private:
  int hostOf(int rank) const { return hosts.empty() ? 0 : hosts[static_cast<size_t>(rank)]; }
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_PLACEMENT_H
