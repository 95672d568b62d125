//===- Sync.h - how replicas are kept in step -------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_SYNC_H
#define DIVISI_RUNTIME_CORE_SYNC_H

#include <cstdint>
#include <string>

namespace divisi::runtime {

/// How the replicas along an axis of the mesh are kept in step if each updates its parameters by its own share of the
/// batch.
struct Sync {
  /// What makes new parameters of the replicas' mean: the mean itself, or an update of the parameters after the
  /// previous average, whose gradient is their distance from the mean.
  enum class Outer { Mean, Sgd, Nesterov };

  int64_t axis = 0;          ///< position in the mesh
  int64_t every = 1;         ///< steps from one average to the next
  bool averageState = false; ///< the optimizer's state is averaged, too
  Outer outer = Outer::Mean;
  double outerRate = 1, outerMomentum = 0;
};

/// Names of the state of the outer optimizer: that of the parameter with one of these behind it.
inline constexpr const char *anchorSuffix = ".anchor", *outerMomentumSuffix = ".outer_momentum";

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_SYNC_H
