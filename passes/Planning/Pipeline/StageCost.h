#pragma once
#include <cstdint>

namespace divisi::planning {

/// Milliseconds per minibatch in which m replicas synchronise: 4 (m-1)/m of one transfer of the parameters, divided by
/// m. Greatest for m = 2.
inline double syncMs(double parameterMs, int64_t m) {
  double n = static_cast<double>(m);
  return 4 * (n - 1) / n * parameterMs / n;
}

/// Times within this factor count as equal.
constexpr double sameTime = 1 + 1e-12;

/// Milliseconds of a transfer over a link.
inline double transferMs(double bytes, double bandwidth) { return bytes / bandwidth * 1e3; }

/// A stage between two cuts.
struct StageChoice {
  int inner, outer; // cuts
  int64_t replicas;
};

} // namespace divisi::planning
