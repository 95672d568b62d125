#pragma once
#include "passes/Planning/Pipeline/PipeDream.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace divisi::planning {

/// The plan for programs:
///   {"objective": "pipedream", "devices": N, "devices_used", "slowest_ms", "speedup", "cuts", "cuts_considered",
///    "stages": [{"layers": [names], "replicas", "replicas_per_level", "ms", "transfer_ms"}]}
/// Times in milliseconds for each minibatch; transfer_ms is that of the cut behind the stage, there and back.
llvm::json::Object pipeDreamJson(const PipeDreamPlan &plan, const LayerProfile &profile, int64_t devices);

/// The same as a table for people.
void printPipeDream(const PipeDreamPlan &plan, const LayerProfile &profile, int64_t devices, llvm::raw_ostream &os);

} // namespace divisi::planning
