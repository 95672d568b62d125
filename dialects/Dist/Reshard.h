#pragma once
#include "dialects/Dist/Sharding.h"

namespace divisi::dist {

/// One step from a sharding to another, on local values.
struct ReshardStep {
  enum class Kind {
    allReduce,     // combines what is pending over `axes`
    reduceScatter, // the same; each device keeps its piece of dimension `dim`
    allGather,     // joins the pieces of dimension `dim`
    allToAll,      // joins the pieces of dimension `dim` and splits dimension `to`
    slice          // keeps the own piece of dimension `dim`: no communication
  };
  Kind kind;
  Axes axes;
  int dim = -1, to = -1;
  Reduction reduction = Reduction::sum;
};

/// The collectives that a reshard becomes: the one list that the planner prices and the partitioner writes. Reductions
/// come first (scattered where the axis is what a dimension lacks next), then minor axes that must go (exchanged if
/// their new place is ready, else gathered), then slices. `to` may keep pending axes of `from`, but not add any.
std::vector<ReshardStep> planReshard(const Sharding &from, const Sharding &to);

/// Bytes that a step is about on one device: its local input, or for an all_gather its local output; 0 for a slice.
/// `local`, the bytes of the value before the step, becomes those after it.
int64_t bytesOfStep(const Mesh &mesh, const ReshardStep &step, int64_t &local);

} // namespace divisi::dist
