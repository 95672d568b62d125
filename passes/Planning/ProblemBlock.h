#pragma once
#include "passes/Planning/Problem.h"
#include "step/Block.h"

namespace divisi::planning {

/// A problem's straight-line code, for the rule of fusion.
struct ProblemBlock {
  /// Of the training step, or of the evaluation.
  ProblemBlock(const Problem &problem, bool evaluation);

  step::Block block;
  std::vector<int> tensorOf; // by value
  std::vector<int> numberOf; // by operation of the block: that of the problem
  std::vector<int> outputs;  // by output of the problem: the value; -1: it is of the other part
};

} // namespace divisi::planning
