#pragma once
#include <cstdint>

namespace divisi::planning {

/// Milliseconds for which m replicas synchronise, for each minibatch: 1/m 4 (m-1)/m of what the parameters take over
/// the link once. Greatest for m = 2.
inline double syncMs(double parameterMs, int64_t m) {
  double n = static_cast<double>(m);
  return 4 * (n - 1) / n * parameterMs / n;
}

/// Times within this factor count as equal.
constexpr double sameTime = 1 + 1e-12;

/// How long bytes take over a link, in milliseconds.
inline double transferMs(double bytes, double bandwidth) { return bytes / bandwidth * 1e3; }

/// A stage between two cuts.
struct StageChoice {
  int inner, outer; // cuts
  int64_t replicas;
};

} // namespace divisi::planning
