#pragma once
#include "passes/Planning/Cost/Cluster.h"
#include "passes/Planning/Pipeline/LayerProfile.h"
#include "passes/Planning/Pipeline/StageCost.h"
#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace divisi::planning {

/// A level of equal links in PipeDream's model.
struct PipeLevel {
  int64_t size = 1;     // units that are connected: devices, or whole units of the next inner level
  double bandwidth = 0; // between two of them, bytes/s; may be infinite
};

/// Stages that run at the same time on different minibatches. The replicas of a stage take minibatches in turn.
struct PipeDreamPlan {
  struct Stage {
    std::vector<int> layers;       // in topological order
    int64_t replicas = 1;          // devices
    std::vector<int64_t> perLevel; // their product is `replicas`; innermost level first
    double ms = 0;                 // per minibatch: the larger of computing and synchronising, by the definition
    double transferMs = 0;         // of the cut behind it, both directions; 0 for the last one
    double crossingBytes = 0;      // per minibatch, one direction
  };
  std::vector<Stage> stages;
  double slowestMs = 0; // the largest of all ms and transferMs
  double boundMs = 0;   // no plan is faster; slowestMs if the plan is optimal
  double speedup = 1;   // one device's time for a minibatch over slowestMs
  int64_t steps = 0;    // pairs of cuts that the search looked at, and steps inside of units
  int64_t cuts = 0;     // the most cuts that one search of this plan looked at

  /// Bulk-synchronous data parallelism (BSP) on all devices: milliseconds per minibatch, by the formula of
  /// PipeCost::code for a single stage (replicas compute, then synchronise, on each level once in a round of all devices),
  /// and bytes that are sent.
  double dataParallelMs = 0, dataParallelBytes = 0;
  double sentBytes = 0; // of this plan per minibatch, each byte counted once
  PipeCost cost = PipeCost::paper;

  int64_t devices() const;
};

/// The partitioner of PipeDream (Harlap et al., arXiv 1806.03377, section 3.2; for a hierarchy Narayanan et al., SOSP
/// 2019, section 3.1): the stages whose slowest is the fastest. With
///   T(S, m) = 1/m max(sum of forward + backward in S, 4 (m-1)/m parameter bytes of S / bandwidth)
///   C(D)    = bytes of the layers' outputs that leave D, each once / bandwidth
///   A(D, m) = min over D' inside D, 0 < m' <= m of max(A(D', m - m'), 2 C(D'), T(D \ D', m')),  A({}, m) = 0,
/// where D and D' are downsets of the network, the answer is A(all layers, devices). "At most m devices": A is the
/// least over them, so devices may be left over (two replicas can be slower than one, because they synchronise). Of the
/// plans whose slowest stage is within 1e-12 of the least, one with the fewest devices is returned, and a single stage
/// if that is one of them. With several levels, T at a level is over A of a unit of the level inside, on all its
/// devices:
///   T_k(S, m) = 1/m max(A_k-1(S), 4 (m-1)/m parameter bytes of S / bandwidth_k).
/// PipeCost::code has
///   T_k(S, m) = 1/m (A_k-1(S) + 4 (m-1)/m parameter bytes of S / bandwidth_k)
/// and no C, as PipeDream's published code without its flag for activations.
/// The answer is optimal (slowestMs is boundMs) if all cuts were searched: up to 2^18 of one level, 1,024 of
/// several, not counting those between layers that no plan as fast can cut apart. No levels: one device.
PipeDreamPlan planPipeDream(const LayerProfile &profile, llvm::ArrayRef<PipeLevel> levels,
                            PipeCost cost = PipeCost::paper);

/// The levels that the first `devices` of a cluster form, without those of size 1. Latencies are ignored. Fails with a
/// one-line error if the devices are not whole units of a level.
llvm::Expected<std::vector<PipeLevel>> pipeLevels(const Cluster &cluster, int64_t devices);

} // namespace divisi::planning
