#pragma once
#include "passes/Planning/Pipeline/PipeDream.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace divisi::planning {

/// The plan in machine-readable form:
///   {"objective": "pipedream", "devices": N, "devices_used", "slowest_ms", "speedup", "cuts", "cuts_considered",
///    "stages": [{"layers": [names], "replicas", "replicas_per_level", "ms", "transfer_ms"}]}
/// Times are in milliseconds per minibatch; transfer_ms is that of the cut behind the stage, in both directions.
llvm::json::Object pipeDreamJson(const PipeDreamPlan &plan, const LayerProfile &profile, int64_t devices);

/// The same as a table for users.
void printPipeDream(const PipeDreamPlan &plan, const LayerProfile &profile, int64_t devices, llvm::raw_ostream &os);

} // namespace divisi::planning
