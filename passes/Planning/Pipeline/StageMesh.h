#pragma once
#include "dialects/Dist/Sharding.h"
#include "llvm/ADT/ArrayRef.h"

#include <string>

namespace divisi::planning {

/// A mesh on which every stage of a pipeline has as many devices as it should, and the axes that each stage has.
struct StageMesh {
  dist::Mesh mesh;   ///< the axis "stage", unless there is one stage, and replicas' axes "data", "data2", ...
  std::string axes;  ///< as StageAxes::parse reads them; empty if all stages have all axes
};

/// The mesh with the fewest axes for numbers of replicas (positive; by stage). An axis is a product of primes that the
/// same stages have: 4, 2, 1 are data=2,data2=2 with data+data2, data, none; 9, 5, 1, 1 are data=9,data2=5.
StageMesh meshOfStages(llvm::ArrayRef<int64_t> replicas);

} // namespace divisi::planning
