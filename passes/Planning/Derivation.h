#pragma once
#include "passes/Planning/Propagation.h"

namespace divisi::planning {

/// The splits of operations that a plan file does not name. They follow from what is decided before them: where the
/// neighbours have what propagation derives from the states and inputs, an operation has, too; next to others it takes
/// the sharding of the values that it reads. Operations that make values from nothing (constants, broadcasts, and what
/// is computed from these alone) are decided last, by what reads them.
class Derivation {
public:
  /// `spread` is the plan that propagation derives from the shardings of states and inputs.
  Derivation(const Problem &problem, const dist::Mesh &mesh, const Plan &spread);

  /// All operations, in the order in which they are decided.
  llvm::ArrayRef<int> order() const { return sequence; }
  /// Whether an operation is decided by what reads it.
  bool isLate(int op) const { return late[op]; }
  /// Whether it does not matter how an operation is split: a constant of one value is made where it is read.
  bool isFree(int op) const;
  /// What follows for an operation. Of `decided`, only those before it in the order are read.
  dist::FactorAxes of(int op, llvm::ArrayRef<dist::FactorAxes> decided) const;

private:
  bool isDecided(int neighbour, int op) const { return rank[neighbour] < rank[op]; }
  dist::FactorAxes fromOperands(int op, llvm::ArrayRef<dist::FactorAxes> decided) const;
  dist::FactorAxes fromUsers(int op, llvm::ArrayRef<dist::FactorAxes> decided) const;
  /// Extends a factor's axes by others, if its axes are a prefix of them and the split stays valid.
  void extend(int op, dist::FactorAxes &factors, size_t factor, dist::AxesRef axes) const;
  void add(int op, dist::FactorAxes &factors, const dist::ShardingRule::Dims &dims, const dist::Sharding &sharding) const;

  const Problem &problem;
  const dist::Mesh &mesh;
  const Plan &spread;
  std::vector<int> sequence, rank;
  std::vector<bool> late;                          // by operation
  std::vector<std::pair<int, int>> producer;       // by tensor: operation and result; -1: none
  std::vector<std::vector<std::pair<int, int>>> users; // by tensor: operation and operand
};

} // namespace divisi::planning
