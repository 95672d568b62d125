#pragma once
#include "passes/Planning/Cost/Cluster.h"

namespace divisi::tools {

/// Measures what one thread of each core reaches while all of them compute, and what they reach as one team: less than two
/// seconds. None if other load disturbed the measurement.
std::optional<planning::Calibration> measureMachine(int cores);

} // namespace divisi::tools
