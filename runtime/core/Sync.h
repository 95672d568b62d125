//===- Sync.h - how replicas are kept in step -------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_SYNC_H
#define DIVISI_RUNTIME_CORE_SYNC_H

#include "runtime/core/DataType.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace divisi::runtime {

/// How the replicas along an axis of the mesh are kept in step if each updates its parameters by its own share of the
/// batch.
struct Sync {
  /// What makes new parameters of the replicas' mean: the mean itself, or an update of the parameters after the
  /// previous average, whose gradient is their distance from the mean.
  enum class Outer { Mean, Sgd, Nesterov };

  /// Gossip: in every step a replica averages its parameters with those of its neighbours: of both on a ring, of the one
  /// at distance 1, 2, 4, ... in turn, or of the one before and the one after it in turn.
  enum class Topology { Ring, Exponential, Pairs };

  std::optional<Topology> gossip = {}; ///< null: all replicas average after every `every`-th step
  bool asynchronous = false; ///< of gossip: replicas average with one neighbour at a time, and do not wait for others
  int64_t axis = 0;          ///< position in the mesh
  int64_t every = 1;         ///< steps from one average to the next
  bool averageState = false; ///< the optimizer's state is averaged, too
  bool overlaps = false;     ///< the next steps are computed during an average, which counts after the next one
  Outer outer = Outer::Mean;
  double outerRate = 1, outerMomentum = 0;

  /// The first step, `from` or a later one, after which training may end: the replicas meet anyway, or (gossip, and averages
  /// that overlap) because it is the last one.
  int64_t endFrom(int64_t from) const { return gossip || overlaps ? from + 1 : (from + every - 1) / every * every; }
};

/// The members along an axis of the mesh that compute collectives over it by messages to and from all others, in place of
/// rings: the first one, or all, each a share.
struct Reducers {
  int64_t axis = 0; ///< position in the mesh
  bool all = false;
};

/// Dedicated parameter servers: ranks behind those of the mesh, for which the parameters and the optimizer's state are
/// shared out. The ranks of the mesh, the workers, run all tasks of a step of training but the updates.
struct Servers {
  /// What an update has of the values of all workers.
  enum class Combine { Copy, Sum, Max, Min };
  /// A place in the arena whose value a worker sends.
  struct Pushed {
    int64_t offset = 0, bytes = 0;
    DataType dtype = DataType::F32;
    Combine combine = Combine::Copy; ///< Copy: they are equal, or there is one
  };
  /// What one server does.
  struct Update {
    int64_t task = 0;
    std::vector<Pushed> pushed;
    std::vector<std::string> renews; ///< names of state
  };

  int64_t axis = 0;                  ///< position in the mesh of the axis along which the workers are replicas
  bool asynchronous = false;         ///< each worker's share of a batch makes an update of its own
  std::optional<int64_t> maxStaleness = {}; ///< batches by which a worker may be ahead of the slowest; null: any number
  std::vector<std::vector<Update>> updates = {}; ///< by stage: of each server
  int64_t count() const { return updates.empty() ? 0 : static_cast<int64_t>(updates.front().size()); }
};

/// Names of the state of the outer optimizer, and of what an average that overlaps with computation is of: that of the parameter with one of these behind it.
inline constexpr std::string_view anchorSuffix = ".anchor", outerMomentumSuffix = ".outer_momentum", snapshotSuffix = ".snapshot";

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_SYNC_H
