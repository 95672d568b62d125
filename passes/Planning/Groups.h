#pragma once
#include "passes/Planning/Problem.h"

namespace divisi::planning {

/// Operations that are split alike because they will share a kernel: elementwise ones and movements that feed each
/// other without a contraction between. Everything else is a group of its own.
struct Group {
  std::vector<int> ops;                         // in program order
  std::vector<llvm::SmallVector<int>> factorOf; // by member and factor of its rule: the group's factor
  int factors = 0;
  bool sums = false; // linear operations on sums that nobody else reads: they may stay pending through the group
};

/// The structure of a program that the search looks at.
struct Groups {
  std::vector<Group> groups; // in order of their first operation
  std::vector<int> groupOf;  // by operation; -1: not in the search (constants of one value, other functions)
  std::vector<bool> late;    // by operation: only renewed states depend on it, through no contraction (the update)
  std::vector<int> maker;    // by tensor: the operation of these groups that makes it; -1: none
  std::vector<bool> outside; // by tensor: read by other groups than the one that makes it, or by the runtime
  int loss = -1;          // the last operation of the forward pass

  /// Whether a tensor is made before the update.
  bool isEarly(int tensor) const { return maker[tensor] >= 0 && !late[maker[tensor]]; }

  /// Groups of the operations of every training step, or of the rest: the evaluation's, and those of some steps.
  Groups(const Problem &problem, bool evaluation);
};

/// Whether an operation combines elements over a factor, or reaches through indices or windows.
bool contracts(const Problem::Op &op);

} // namespace divisi::planning
