#pragma once
#include "passes/Planning/ModulePlanner.h"

#include "llvm/Support/JSON.h"

namespace divisi::compiler {

/// What `divisi plan` and `divisi explain` tell, as JSON: docs/plans.md has the fields. Times in milliseconds, sizes in
/// bytes.
struct PlanReport {
  /// A figure at whose value `then` another plan is better.
  struct Flip {
    std::string figure, unit;
    double now, then;
    std::string plan;
    bool exact = true; ///< the choice changes there; otherwise that value was tried, and values between were not
  };
  std::string model;
  const planning::Cluster &cluster;
  const std::vector<planning::ModuleCandidate> &candidates; // best first; an explanation needs one
  const std::vector<std::string> &suggestions;              // if nothing fits: what would
  std::vector<Flip> flips = {};                             // other figures than the cluster's

  /// The ranked plans.
  llvm::json::Object plans() const;
  /// The same, and for the best plan: its layers, collectives, parameters with what other shardings of them would cost,
  /// at which figures another plan wins, and which segments are recomputed.
  llvm::json::Object explanation() const;
};

/// A table of the plans, for a terminal; at most `most` of them.
void printPlans(const llvm::json::Object &report, size_t most, llvm::raw_ostream &out);
/// The explanation, for a terminal.
void printExplanation(const llvm::json::Object &report, llvm::raw_ostream &out);
/// One page without references to anything outside.
void printHtml(const llvm::json::Object &report, llvm::raw_ostream &out);

/// "tensor<...>" is for machines: "[_, model]" says how each dimension is split.
std::string describe(const dist::Sharding &sharding, const dist::Mesh &mesh);

} // namespace divisi::compiler
