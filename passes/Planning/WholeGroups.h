#pragma once
#include "passes/Planning/Problem.h"

#include "llvm/ADT/IntEqClasses.h"

namespace divisi::planning {

/// Dimensions of the forward pass that consist of groups: a later (or earlier) operation reads the dimension as several
/// factors, of which the outermost counts the groups. The columns of the weight of a projection are heads x depth, and
/// its shards stay where they are only if each has whole heads.
class WholeGroups {
public:
  explicit WholeGroups(const Problem &problem);

  /// The greatest common divisor of the numbers of groups of the dimensions that a factor of an operation runs through;
  /// 0: they have no groups.
  int64_t of(const Problem::Op &op, int factor) const;

private:
  std::vector<int> first;      // by tensor: the number of its first dimension
  llvm::IntEqClasses same;     // dimensions that a factor runs through
  std::vector<int64_t> counts; // by class
};

} // namespace divisi::planning
