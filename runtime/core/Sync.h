//===- Sync.h - how replicas are kept in step -------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_SYNC_H
#define DIVISI_RUNTIME_CORE_SYNC_H

#include <cstdint>
#include <optional>
#include <string>

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
  int64_t axis = 0;          ///< position in the mesh
  int64_t every = 1;         ///< steps from one average to the next
  bool averageState = false; ///< the optimizer's state is averaged, too
  Outer outer = Outer::Mean;
  double outerRate = 1, outerMomentum = 0;

  /// The first step, `from` or a later one, after which training may end: the replicas meet anyway, or (gossip) because
  /// it is the last one.
  int64_t endFrom(int64_t from) const { return gossip ? from + 1 : (from + every - 1) / every * every; }
};

/// The members along an axis of the mesh that compute collectives over it by messages to and from all others, in place of
/// rings: the first one, or all, each a share.
struct Reducers {
  int64_t axis = 0; ///< position in the mesh
  bool all = false;
};

/// Names of the state of the outer optimizer: that of the parameter with one of these behind it.
inline constexpr const char *anchorSuffix = ".anchor", *outerMomentumSuffix = ".outer_momentum";

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_SYNC_H
