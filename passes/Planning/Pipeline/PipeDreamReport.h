#pragma once
#include "passes/Planning/Pipeline/PipeDream.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace divisi::planning {

/// The plan in machine-readable form:
///   {"objective": "pipedream", "cost": "paper" or "code", "devices": N, "devices_used", "slowest_ms", "bound_ms",
///    "speedup", "data_parallel_ms", "speedup_over_data_parallel", "sent_bytes", "data_parallel_bytes", "cuts",
///    "stages": [{"layers": [names], "replicas", "replicas_per_level", "ms", "transfer_ms"}]}
/// Times are in milliseconds per minibatch; transfer_ms is that of the cut behind the stage, in both directions. No
/// plan is faster than bound_ms. "cuts": how many places to cut one search looked at.
llvm::json::Object pipeDreamJson(const PipeDreamPlan &plan, const LayerProfile &profile, int64_t devices);

/// The same as a table for users.
void printPipeDream(const PipeDreamPlan &plan, const LayerProfile &profile, int64_t devices, llvm::raw_ostream &os);

} // namespace divisi::planning
