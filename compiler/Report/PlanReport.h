#pragma once
#include "passes/Planning/ModulePlanner.h"

#include "llvm/Support/JSON.h"

namespace divisi::compiler {

/// The output of `divisi plan` and `divisi explain` as JSON; docs/plans.md describes the fields. Times in milliseconds,
/// sizes in bytes.
struct PlanReport {
  /// A figure, and its value `then` at which another plan is better.
  struct Flip {
    std::string figure, unit;
    double now, then;
    std::string plan;
    bool exact = true; ///< the best plan changes exactly there; otherwise only this value was tried, and none between
  };
  std::string model;
  const planning::Cluster &cluster;
  const std::vector<planning::ModuleCandidate> &candidates; // best first; an explanation needs one
  const std::vector<std::string> &suggestions;              // if nothing fits: what would
  std::vector<Flip> flips = {};                             // figures that are not the cluster's

  /// The plans, best first.
  llvm::json::Object plans() const;
  /// The same, and for the best plan: its layers, collectives, parameters with the costs of other shardings, the
  /// figures at which another plan is better, and the recomputed segments.
  llvm::json::Object explanation() const;
};

/// Prints a table of the plans for a terminal; at most `most` of them.
void printPlans(const llvm::json::Object &report, size_t most, llvm::raw_ostream &out);
/// Prints the explanation for a terminal.
void printExplanation(const llvm::json::Object &report, llvm::raw_ostream &out);
/// Prints a self-contained page.
void printHtml(const llvm::json::Object &report, llvm::raw_ostream &out);

/// A sharding for users: "[_, model]" has the axes of each dimension.
std::string describe(const dist::Sharding &sharding, const dist::Mesh &mesh);

} // namespace divisi::compiler
