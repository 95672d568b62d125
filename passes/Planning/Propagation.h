#pragma once
#include "passes/Planning/Problem.h"

#include <deque>

namespace divisi::planning {

/// Spreads a few splits over a problem through the sharding rules, forwards and backwards, until nothing changes. What
/// is set first stays; a split that contradicts it ends there, and a reshard will stand between.
class Propagation {
public:
  Propagation(const Problem &problem, const dist::Mesh &mesh);

  /// Splits a dimension of a tensor further by an axis. False, and no change, if it does not divide or the axis splits
  /// the tensor already.
  bool split(int tensor, int dim, int axis);
  /// Splits a factor of an operation further by an axis. False, and no change, if the rule does not allow it.
  bool splitFactor(int op, int factor, int axis);
  /// The sharding of the tensor stays as it is.
  void fix(int tensor) { fixed[tensor] = true; }
  bool isFixed(int tensor) const { return fixed[tensor]; }
  /// Spreads what has been set.
  void spread();

  const dist::Sharding &sharding(int tensor) const { return plan.tensors[tensor]; }
  const dist::FactorAxes &factors(int op) const { return plan.ops[op]; }
  Plan take() { return std::move(plan); }

private:
  bool mayAssign(int op, int factor, llvm::ArrayRef<int> axes) const;
  void pull(int op);
  void push(int op);
  void offer(int tensor, int dim, llvm::ArrayRef<int> axes);
  void touch(int tensor);

  const Problem &problem;
  const dist::Mesh &mesh;
  Plan plan;
  std::vector<bool> fixed;
  std::vector<llvm::SmallVector<int, 4>> users;    // operations by tensor, producer included
  std::vector<llvm::SmallVector<int, 2>> partners; // tensors that are split alike
  std::deque<int> work;
  std::vector<bool> queued;
};

} // namespace divisi::planning
