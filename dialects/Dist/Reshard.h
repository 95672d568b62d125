#pragma once
#include "dialects/Dist/Sharding.h"

namespace divisi::dist {

/// One step from one sharding to another, on local values.
struct ReshardStep {
  enum class Kind {
    allReduce,     // combines what is pending over `axes`
    reduceScatter, // the same, and each device keeps its shard of dimension `dim`
    allGather,     // gathers the shards of dimension `dim`
    allToAll,      // gathers the shards of dimension `dim` and shards dimension `to`
    slice          // keeps the device's shard of dimension `dim`: no communication
  };
  Kind kind;
  Axes axes;
  int dim = -1, to = -1;
  Reduction reduction = Reduction::sum;
};

/// The collectives of a reshard, both for the planner, which predicts their times, and for the partitioner, which
/// writes them. Reductions come first (a reduce_scatter if a dimension needs the axis next), then minor axes that must
/// be removed (an all_to_all if another dimension needs the axis next, else an all_gather), then slices. `to` may keep
/// pending axes of `from`, but not add any.
std::vector<ReshardStep> planReshard(const Sharding &from, const Sharding &to);

/// The sharding in which stages with mesh axes of their own send a value of this (global) shape that receivers shard as
/// `to`: what is pending in `from` and not in `to` is reduced and scattered over a dimension that divides, if there is
/// one. A message changes the rest.
Sharding sentSharding(const Sharding &from, const Sharding &to, llvm::ArrayRef<int64_t> shape, const Mesh &mesh);

/// The bytes of a step on one device: of its local operand, for an all_gather of its local result; 0 for a slice.
/// `local`, the bytes of the value before the step, becomes those after it.
int64_t bytesOfStep(const Mesh &mesh, const ReshardStep &step, int64_t &local);

} // namespace divisi::dist
