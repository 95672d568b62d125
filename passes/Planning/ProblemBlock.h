#pragma once
#include "passes/Planning/Cost/StepCollectives.h"
#include "step/Block.h"

namespace divisi::planning {

/// A plan of a problem, as far as one device's part of the step follows from it.
struct LocalStep {
  const dist::Mesh &mesh;
  const Plan &plan;
  const Expansion &all;
  const StepCollectives &collectives;
};

/// A problem's straight-line code, for the rule of fusion: the whole program before it is sharded or, under a plan, one
/// device's part of it with its collectives, in the order in which they are compiled.
struct ProblemBlock {
  /// Of the training step, or of the evaluation (without a plan).
  ProblemBlock(const Problem &problem, bool evaluation, const LocalStep *local);

  /// A part of the reshard that makes a version.
  struct Part {
    int version, step;
    int entry = -1;   // of the version's collectives
    int64_t size = 0; // of a shard that is cut out: of its dimension
    dist::Axes axes = {};
  };
  step::Block block;
  std::vector<int> tensorOf;  // by value
  std::vector<int> versionOf; // by value; -1 without a plan
  std::vector<int> numberOf;  // by operation of the block: that of the problem; -1: it reshards
  std::vector<llvm::SmallVector<Part, 1>> partsOf; // by operation of the block that reshards: what it makes
  std::vector<int> outputs;   // by output of the problem: the value; -1: it is of the other part
};

} // namespace divisi::planning
