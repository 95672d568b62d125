#pragma once
#include "passes/Planning/Problem.h"

#include <deque>

namespace divisi::planning {

/// Propagates a few shardings through a problem by the sharding rules, forwards and backwards, until nothing changes.
/// What is set first stays. Propagation ends at a contradiction, where a reshard will be.
class Propagation {
public:
  Propagation(const Problem &problem, const dist::Mesh &mesh);

  /// Shards a dimension of a tensor further along an axis. Returns false, without a change, if the size does not divide
  /// or the axis shards the tensor already.
  bool split(int tensor, int dim, int axis);
  /// Shards a factor of an operation further along an axis. Returns false, without a change, if the rule does not allow
  /// it.
  bool splitFactor(int op, int factor, int axis);
  /// Fixes the tensor's sharding.
  void fix(int tensor) { fixed[tensor] = true; }
  bool isFixed(int tensor) const { return fixed[tensor]; }
  /// Propagates all that was set.
  void spread();

  const dist::Sharding &sharding(int tensor) const { return plan.tensors[tensor]; }
  const dist::FactorAxes &factors(int op) const { return plan.ops[op]; }
  Plan take() { return std::move(plan); }

private:
  bool mayAssign(int op, int factor, dist::AxesRef axes) const;
  void pull(int op);
  void push(int op);
  void offer(int tensor, int dim, dist::AxesRef axes);
  void touch(int tensor);

  const Problem &problem;
  const dist::Mesh &mesh;
  Plan plan;
  std::vector<bool> fixed;
  std::vector<llvm::SmallVector<int, 4>> users;    // operations by tensor, producer included
  std::vector<llvm::SmallVector<int, 2>> partners; // tensors with equal shardings
  std::deque<int> work;
  std::vector<bool> queued;
};

} // namespace divisi::planning
