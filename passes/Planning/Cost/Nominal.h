#pragma once
#include "dialects/Graph/Graph.h"

namespace divisi::planning {

/// Seconds of an operation on a nominal device (a few cores), for decisions that are the same on every machine.
inline double nominalSeconds(mlir::Operation *op) {
  constexpr double arithmetic = 1e11, memory = 2e10; // FLOP/s, bytes/s
  auto cost = llvm::dyn_cast<graph::CostInterface>(op);
  return cost ? std::max(cost.getFlops() / arithmetic, cost.getBytes() / memory) : 0;
}

} // namespace divisi::planning
