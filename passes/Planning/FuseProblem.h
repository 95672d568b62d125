#pragma once
#include "passes/Planning/Groups.h"

namespace divisi::planning {

/// How many elements of each tensor the operations `ops` of a kernel read or compute (dialects/Graph/ElementsRead.h); `writes`: the tensors
/// that it writes. `ofOperand`: the elements of an operand, by operation and position; `ofResult`: those of a tensor that an operation makes.
llvm::DenseMap<int, double> elementsRead(const Problem &problem, llvm::ArrayRef<int> ops, llvm::ArrayRef<int> writes,
                                         llvm::function_ref<double(int, int)> ofOperand, llvm::function_ref<double(int)> ofResult);

/// The kernels and calls of a program, before it is sharded or of one device's part of it (Problem::local), by the rule of
/// fusion that code generation follows (step/Fusion.h).
struct FusedProblem {
  /// An operand of an operation, by position, and the tensor in memory that it is, or is a view of.
  struct Read {
    int op, operand, memory;
    double share = 1; // of the tensor, that is read: before it is sharded
  };
  /// A kernel or a call.
  struct Item {
    llvm::SmallVector<int, 4> ops;    // in program order; a recomputed operation is in several items
    llvm::SmallVector<Read, 4> reads; // from memory, each tensor once
    llvm::SmallVector<int, 2> writes; // tensors
    /// Tensors that it may write over ones in memory that it reads (step/InPlace.h).
    llvm::SmallVector<std::pair<int, int>, 1> overwrites;
    bool call = false;
    bool readsParts = false; // an operation of it reads only a part of an operand
    bool elements = false; // elementwise without reductions: on GPUs, consecutive updates of this kind share a launch
    /// Whether a matmul of a GPU's library computes it in the same call (codegen/Kernels/FuseEpilogues.cpp): a bias with
    /// gelu, gelu's gradient, or the sums over rows that are gradients of biases.
    bool epilogue = false;
    llvm::SmallVector<int, 3> apart; // of an epilogue: tensors that it reads and writes although the call has them at hand
    int at = -1;           // the position in the program, as the number of an operation

    /// The operation to which its time is attributed.
    int home() const { return *llvm::max_element(ops); }
  };
  bool forGpu;
  std::vector<Item> items;  // of every step, in order
  std::vector<bool> stored; // by tensor: whether an item writes it to memory
  std::vector<bool> kept;   // by tensor: produced in the forward pass and read from memory in the backward pass
  /// By operation: operands that items read for it, once for each item, and their share that is read.
  std::vector<llvm::SmallVector<std::pair<int, double>, 2>> readsOf;

  /// By operation: the number of items with this home that are launched by themselves.
  std::vector<int> launches;
  /// Whether an item shares a launch with the one before it if both do: on GPUs, updates of parameters
  /// (codegen/Kernels/BatchKernels.cpp).
  bool batched(const Item &item, const Groups &groups) const {
    return forGpu && item.elements && groups.late[item.home()];
  }

  /// Of the training step (without operations that only some steps need), or of the evaluation. `groups` has the end of the
  /// forward pass and the operations of the update.
  FusedProblem(const Problem &problem, bool evaluation, bool forGpu, const Groups &groups);
};

} // namespace divisi::planning
