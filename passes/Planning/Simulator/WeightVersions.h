#pragma once
#include "passes/Planning/Simulator/Schedule.h"

namespace divisi::planning::pipeline {

/// Which weights the tasks of a schedule read. Version n of a stage's weights has n updates; version 0 is the start.
struct WeightVersions {
  std::vector<std::vector<int>> read; // by device and task: the version that it reads, or produces (update)
  std::vector<int> kept;              // by stage: the largest number of copies at a time, including the newest
};

/// A version is kept from the update that makes it to the last task that reads it. p stages of PipeDream keep, on stage
/// s, p - s versions when stashed, p with vertical sync, 1 with the latest or predicted ones (arXiv 1806.03377,
/// section 3.3). PipeDream-2BW keeps two versions (arXiv 2006.09503, section 3.1), and one of them twice on stages whose
/// forward passes are ahead of their backward passes: each kind of pass reads a copy of its own.
WeightVersions weightVersions(const Schedule &schedule);

} // namespace divisi::planning::pipeline
