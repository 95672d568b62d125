#pragma once
#include "passes/Planning/Cost/Cluster.h"
#include "passes/Planning/Pipeline/LayerProfile.h"
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
    double transferMs = 0;         // 2 C of the cut behind it; 0 for the last one
  };
  std::vector<Stage> stages;
  double slowestMs = 0; // the largest of all ms and transferMs
  double speedup = 1;   // one device's time for a minibatch over slowestMs
  int cuts = 0;         // places where the network can be cut
  int considered = 0;   // cuts that the search considered; if all, the plan is optimal

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
/// One level is searched over all cuts. Several need a time for every pair of cuts; with more cuts than are affordable,
/// the network is divided into equal parts of compute and parameters, and of each part the cut with the fewest crossing
/// bytes is kept (`considered` says how many).
/// No levels: one device. On failure (too many branches side by side) an error of one line.
llvm::Expected<PipeDreamPlan> planPipeDream(const LayerProfile &profile, llvm::ArrayRef<PipeLevel> levels);

/// The levels that the first `devices` of a cluster form, without those of size 1. Latencies are ignored. Fails with a
/// one-line error if the devices are not whole units of a level.
llvm::Expected<std::vector<PipeLevel>> pipeLevels(const Cluster &cluster, int64_t devices);

} // namespace divisi::planning
