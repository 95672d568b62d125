#pragma once
#include "dialects/Dist/Sync.h"
#include "passes/Planning/Search/Planner.h"

#include "llvm/Support/JSON.h"

namespace divisi::compiler {

/// A way to keep the replicas of a plan in step, and what a step costs with it.
struct SyncPrice {
  std::string flags;     // of --sync
  bool sameNumbers;      // as all-reduce, to rounding
  double bytes = 0;      // that the rank which sends the most sends in a step, on average
  double exposed = 0;    // seconds of a step in which computation waits for communication, on average
  double seconds = 0;    // of a step
};

/// One way for such a plan as below, of this problem.
SyncPrice priceSync(const dist::Sync &sync, const planning::Candidate &plan, const planning::Problem &problem, const planning::Cluster &cluster);

/// Sets the prediction of a plan to that of a way.
void applySync(const dist::Sync &sync, planning::Candidate &plan, const planning::Problem &problem, const planning::Cluster &cluster);

/// All ways for a plan that splits the batch over the axis "data" and no state over it: first those that compute what
/// one device would, then the others, each in the order of docs/synchronisation.md.
std::vector<SyncPrice> priceSync(const planning::Candidate &plan, const planning::Problem &problem, const planning::Cluster &cluster);

/// As JSON (docs/plans.md), and as a table for a terminal.
llvm::json::Array describeSync(const std::vector<SyncPrice> &prices);
void printSync(llvm::StringRef plan, const std::vector<SyncPrice> &prices, llvm::raw_ostream &out);

} // namespace divisi::compiler
