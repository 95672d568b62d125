#pragma once
#include "passes/Planning/Pipeline/PipeDream.h"

namespace divisi::planning {

/// A lower bound on the slowest stage of every plan, in milliseconds, without a search: the compute time shared evenly
/// by all devices, and the least time of each group of layers that no plan so fast can cut apart, level by level.
double lowerBound(const LayerProfile &profile, llvm::ArrayRef<PipeLevel> levels, PipeCost cost);

/// The most bytes that can cross a cut within `ms`, over the fastest links of the levels; infinity where cuts are free.
double mostCrossing(llvm::ArrayRef<PipeLevel> levels, PipeCost cost, double ms);

} // namespace divisi::planning
