#pragma once
#include "dialects/Dist/FactorAxes.h"

namespace divisi::planning {

/// What is to be split: tensors and the operations between them, without IR. Operations are in program order.
struct Problem {
  /// What a tensor is to the program.
  enum class Role { transient, input, parameter, moment, other };
  struct Tensor {
    llvm::SmallVector<int64_t, 4> shape;
    Role role = Role::transient;
    std::string name; // of inputs and state
    bool weight = false; // computed from parameters and constants alone
  };
  struct Op {
    dist::ShardingRule rule;
    llvm::SmallVector<int> operands, results; // tensors
    bool forward = false; // of the evaluation
  };
  std::vector<Tensor> tensors;
  std::vector<Op> ops;
  /// Tensors that are split alike: a state in the functions that share it.
  std::vector<std::pair<int, int>> same;
  /// A state and the value that renews it: split alike if that is possible.
  std::vector<std::pair<int, int>> renewed;
  /// Where the batch runs through inputs (or what pads them): tensor and dimension.
  std::vector<std::pair<int, int>> batchDims;
};

/// The decisions: how the functions' arguments lie, and what each operation splits.
struct Plan {
  std::vector<dist::Sharding> tensors; // of arguments; wishes for the others
  std::vector<dist::FactorAxes> ops;
};

} // namespace divisi::planning
