#pragma once
#include "passes/Planning/Problem.h"

namespace divisi::planning {

/// What a plan makes of a program: in which sharding each value is produced, and every reshard, as the IR will have
/// them (ApplyPlan writes it, the cost model prices it).
struct Expansion {
  /// A value in one sharding.
  struct Version {
    int tensor;
    dist::Sharding sharding;
    int source = -1; // the version that it is resharded from; -1: as it is produced, or a constant made so
    int user = -1;   // the one operation that it is made for, just before it; -1: made where its source is produced
  };
  std::vector<Version> versions;                   // a version comes after its source
  std::vector<int> produced;                       // by tensor
  std::vector<llvm::SmallVector<int, 4>> operands; // by operation and operand
  std::vector<int> outputs;                        // by output
};

/// Wants what every operation's split asks of its operands, lets sums stay pending through linear operations where
/// nobody else reads them, and derives every wanted sharding from the nearest one that is there. A state that is
/// gathered is gathered for each use, so that it need not stay whole from the forward to the backward part (ZeRO-3).
Expansion expand(const Problem &problem, const dist::Mesh &mesh, const Plan &plan);

/// How an operation splits its operands and results under a plan. `passed` are axes over which its operands stay
/// pending.
dist::Sharding operandSharding(const Problem::Op &op, const dist::Mesh &mesh, const dist::FactorAxes &factors,
                               size_t operand, llvm::ArrayRef<int> passed = {},
                               dist::Reduction kind = dist::Reduction::sum);
dist::Sharding resultSharding(const Problem::Op &op, const dist::Mesh &mesh, const dist::FactorAxes &factors,
                              size_t result, llvm::ArrayRef<int> passed = {},
                              dist::Reduction kind = dist::Reduction::sum);

} // namespace divisi::planning
