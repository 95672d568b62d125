#pragma once
#include <algorithm>
#include <cstdint>

namespace divisi::planning {

/// How the time of a replicated stage is counted (docs/pipelines.md).
enum class PipeCost {
  paper, // computing and synchronising overlap, and what crosses a cut counts
  code   // PipeDream's published code: they do not overlap, and cuts are free
};

/// Milliseconds per minibatch in which m replicas synchronise: 4 (m-1)/m of one transfer of the parameters, divided by
/// m. Greatest for m = 2.
inline double syncMs(double parameterMs, int64_t m) {
  double n = static_cast<double>(m);
  return 4 * (n - 1) / n * parameterMs / n;
}

/// Milliseconds per minibatch of m replicas of a stage that takes `ms` on one of them.
inline double stageMs(PipeCost cost, double ms, double parameterMs, int64_t m) {
  double share = ms / static_cast<double>(m), sync = syncMs(parameterMs, m);
  return cost == PipeCost::paper ? std::max(share, sync) : share + sync;
}

/// Times within this factor count as equal.
constexpr double roundingSlack = 1 + 1e-12;

/// Milliseconds of a transfer over a link.
inline double transferMs(double bytes, double bandwidth) { return bytes / bandwidth * 1e3; }

/// Milliseconds for the outputs that cross a cut and their gradients.
inline double crossingMs(PipeCost cost, double bytes, double bandwidth) {
  return cost == PipeCost::paper ? 2 * transferMs(bytes, bandwidth) : 0;
}

/// A stage between two cuts.
struct StageChoice {
  int inner, outer; // cuts
  int64_t replicas;
};

} // namespace divisi::planning
