#pragma once
#include "dialects/Dist/Reshard.h"
#include "passes/Planning/Cost/Cluster.h"
#include "runtime/include/divisi/all_reduce.h"

#include <limits>
#include <optional>

namespace divisi::planning {

/// How the groups of some mesh axes lie on a cluster, and their bandwidth and latency when all groups communicate at
/// once. If groups lie differently (sizes that do not nest), these are those of the slowest group: every step of a
/// program waits for it.
struct Link {
  struct Share {
    int64_t members = 0; // members of a group in one child of the level, at most
    int64_t groups = 0;  // groups that cross the border of one child at once, at most; 0 if no group does

    bool operator==(const Share &) const = default;
  };
  int64_t members = 1;       // of a group
  std::vector<Share> levels; // innermost first, as the cluster's

  double bandwidth = std::numeric_limits<double>::infinity(); // at which a member sends around a ring, bytes/s
  double exchange = 0; // seconds for each byte of a member's operand in an all_to_all
  double uncached = 0; // seconds that each byte takes longer that no cache holds, as in Cluster::Level
  double latency = 0;  // of the slowest hop of the ring (a hop takes that of the outermost level it crosses), seconds
  double pass = 0;     // latency of n - 1 hops of the ring in the order of the devices, without the fastest of its n
  double messages = 0; // latency of n - 1 messages, one to each other member
  double tree = std::numeric_limits<double>::infinity(); // latency of a tree, up and down; infinity: there is no tree
  std::optional<AllReduceGroup> byHosts; // of CPUs, whose all_reduces are the runtime's; hosts are machines

  bool operator==(const Link &) const = default;
};

/// The groups that communicate over `axes`: one for each position along the other axes. The mesh occupies the first
/// devices of the cluster.
///
/// A message leaves through the link of its device and of every unit around it that it leaves. A ring in the order of
/// the devices leaves each unit once, so
///   bandwidth = min over crossed levels of level.bandwidth / groups,
/// and an all_to_all of n members, k of them inside a unit, sends k (n-k)/n of its local bytes out of it.
/// On CUDA, NCCL's double binary tree: a chain inside of a machine, trees around it (NCCL, src/graph/tuning.cc).
Link linkOf(const Cluster &cluster, const dist::Mesh &mesh, const dist::Axes &axes);

/// What a program for this cluster of CPUs knows of it: the links inside of a machine and between machines.
HostLinks hostLinksOf(const Cluster &cluster);

/// The name of a collective: "all_reduce".
const char *collectiveName(dist::ReshardStep::Kind kind);

/// Seconds of a collective, without the device's `launch`. `bytes` are those of one device: of its operand for
/// allReduce, reduceScatter and allToAll, of its result for allGather. With n members:
///   reduceScatter, allGather   pass + (n-1)/n bytes / bandwidth                      (ring)
///   allReduce                  2 pass + 2 (n-1)/n bytes / bandwidth, or               (ring)
///                              tree + 2 bytes / bandwidth if that is less             (tree)
///                              on CPUs the fastest way by divisi/all_reduce.h
///   allToAll                   messages + bytes * exchange
///   slice                      0
/// and on CPUs uncachedSeconds of what a rank sends.
double stepSeconds(const Link &link, dist::ReshardStep::Kind kind, double bytes);

/// The bytes that each of n members sends, by the same `bytes` and the ring algorithms.
double bytesSent(dist::ReshardStep::Kind kind, int64_t members, double bytes);
/// Those of the way that stepSeconds prices, of the member that sends the most.
double bytesSent(const Link &link, dist::ReshardStep::Kind kind, double bytes);

/// Seconds that a message, or what a rank sends in a collective, takes longer because no cache holds it (Cluster::Level).
double uncachedSeconds(double uncached, double sent);

/// Seconds in which every member sends `bytes` to the next one of its group, round the ring.
double permuteSeconds(const Link &link, double bytes);

/// A message between two devices of a cluster, by number.
struct Transfer {
  int64_t from, to;
};
/// Seconds until the last of these messages has arrived. All are sent at once and have `bytes` each. The messages that
/// leave a unit share its link, and so do those that enter it.
double transferSeconds(const Cluster &cluster, llvm::ArrayRef<Transfer> transfers, double bytes);

/// The meshes that are searched for this number of devices (at most the cluster's): "data" alone, then all a x b with
/// a, b > 1 as "data" outside of "model", each followed by "model" outside of "data" if its links differ.
std::vector<dist::Mesh> enumerateMeshes(const Cluster &cluster, int64_t devices);

/// All meshes that result from splitting one of the two axes of a mesh in two; the inner half is called "inner". Meshes
/// whose axes cross the fewest borders between the cluster's levels come first.
std::vector<dist::Mesh> splitAxes(const Cluster &cluster, const dist::Mesh &mesh);

} // namespace divisi::planning
