#pragma once
#include "dialects/Dist/FactorAxes.h"
#include "dialects/Graph/Form.h"
#include "dialects/Graph/Precision.h"
#include "dialects/Graph/Workspace.h"

namespace divisi::planning {

/// What is to be split: tensors and the operations between them, without IR. Operations are in program order.
struct Problem {
  /// What a tensor is to the program.
  enum class Role { transient, input, parameter, moment, other };
  struct Tensor {
    llvm::SmallVector<int64_t, 4> shape;
    Role role = Role::transient;
    std::string name;    // of inputs and state
    bool weight = false; // computed from parameters and constants alone
    int64_t elementBytes = 4;
    bool splat = false; // a constant of one value: it may lie in any way
    bool zero = false;  // that value is zero
    int64_t repeats = 1; // times that a step computes it

    bool named() const { return !name.empty(); }
    int64_t elements() const { return llvm::product_of(shape); }
    int64_t bytes() const { return elements() * elementBytes; }
  };
  struct Op {
    dist::ShardingRule rule;
    llvm::SmallVector<int> operands, results; // tensors
    bool forward = false;                     // of the evaluation
    bool seldom = false;                      // of the training step, but only in some steps (norms for the log)
    int64_t flops = 0;                        // of the whole operation
    graph::Precision precision = graph::fp32;
    bool causal = false;                      // of attention: under a causal mask
    bool images = false;                      // of windows of images: of a product, a convolution
    bool readsPart = false;                   // only as much of its first operand as its first result has
    std::string name, kind;                   // of the ONNX node, and of the operation
    int64_t repeats = 1; // times that a step computes it: the number of microbatches, if it is computed for each
    graph::Form form = graph::Form::elementwise;
    graph::Workspace workspace; // of GPUs' libraries
    int64_t pointFlops = 0; // of a point of its iteration space
    /// Of one device's part of a step: a collective, or a message between stages, which runs in every step even without a reader.
    bool collective = false, message = false;
  };
  /// What a function returns: renews the state (a tensor, split alike if that is possible), or is read whole (-1).
  struct Output {
    int tensor, state = -1;
    bool loss = false;
    bool seldom = false; // not in every step
    bool held = false;   // of a task: kept in a place of its own for other tasks, that of the state if there is one
  };
  std::vector<Tensor> tensors;
  std::vector<Op> ops;
  /// Of one device's part of a step, as it is compiled, with collectives and messages as operations (ModuleProblem::ofTask).
  bool local = false;
  bool ordered = false; // of such a part: updates stay where they are (codegen/Kernels/OrderUpdates.cpp)
  std::vector<Output> outputs; // function by function
  /// Tensors that are split alike: a state in the functions that share it.
  std::vector<std::pair<int, int>> same;
  /// Where the batch runs through inputs (or what pads them): tensor and dimension.
  std::vector<std::pair<int, int>> batchDims;

  /// Calls f(a, b) for tensors that should be split alike: one state in several functions, or a state and what renews
  /// it.
  template <class F> void forEachTie(F f) const {
    for (auto [a, b] : same)
      f(a, b);
    for (const Output &output : outputs)
      if (output.state >= 0)
        f(output.state, output.tensor);
  }
};

/// The decisions: how the functions' arguments lie, and what each operation splits.
struct Plan {
  std::vector<dist::Sharding> tensors; // of arguments; wishes for the others
  std::vector<dist::FactorAxes> ops;
  std::vector<dist::Axes> lacking; // by operation: axes that its stage does not have; empty: all stages have all

  bool operator==(const Plan &other) const = default;
};

} // namespace divisi::planning
