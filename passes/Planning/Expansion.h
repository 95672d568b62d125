#pragma once
#include "passes/Planning/Problem.h"

namespace divisi::planning {

/// How a plan changes a program: the sharding in which each value is produced, and every reshard. ApplyPlan writes it
/// into the IR, the cost model predicts its time.
struct Expansion {
  /// A value in one sharding.
  struct Version {
    int tensor;
    dist::Sharding sharding;
    int source = -1; // version that it is resharded from; -1: it is produced in this sharding, or is a constant
    int user = -1;   // the only operation that uses it, just before it; -1: created behind its source
  };
  std::vector<Version> versions;                   // a version comes after its source
  std::vector<int> produced;                       // by tensor
  std::vector<llvm::SmallVector<int, 4>> operands; // by operation and operand
  std::vector<int> outputs;                        // by output
};

/// Every tensor whole, on all devices.
Plan unsplit(const Problem &problem);

/// Requests the operand shardings of every operation's split, keeps sums pending through linear operations if they have
/// no other users, and derives every requested sharding from the nearest existing one. State is gathered for each use
/// separately, so that it need not stay replicated between the forward and the backward pass (ZeRO-3).
Expansion expand(const Problem &problem, const dist::Mesh &mesh, const Plan &plan);

/// The shardings of an operation's operands and results under a plan. `passed` are the axes over which its operands
/// stay pending.
dist::Sharding operandSharding(const Problem::Op &op, const dist::Mesh &mesh, const dist::FactorAxes &factors,
                               size_t operand, dist::AxesRef passed = {},
                               dist::Reduction kind = dist::Reduction::sum);
dist::Sharding resultSharding(const Problem::Op &op, const dist::Mesh &mesh, const dist::FactorAxes &factors,
                              size_t result, dist::AxesRef passed = {},
                              dist::Reduction kind = dist::Reduction::sum);

} // namespace divisi::planning
