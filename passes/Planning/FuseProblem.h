#pragma once
#include "passes/Planning/Search/Groups.h"

namespace divisi::planning {

/// The kernels and calls of a program before it is split, by the one rule of fusion (step/Fusion.h).
struct FusedProblem {
  /// An operation's operand, by its position, and the tensor in memory that it is, or is a view of.
  struct Read {
    int op, operand, memory;
  };
  /// A kernel or a call.
  struct Item {
    llvm::SmallVector<int, 4> ops;    // what it computes, in program order: what is recomputed is in several items
    llvm::SmallVector<Read, 4> reads; // each tensor that it reads from memory, once
    llvm::SmallVector<int, 2> writes; // tensors
    bool call = false;
    bool elements = false; // each element alone: kernels of this kind are launched together where they follow each other
    int at = -1;           // the operation of the problem with which it is there

    /// Its time is that operation's.
    int home() const { return *llvm::max_element(ops); }
  };
  std::vector<Item> items;  // of every step, in order
  std::vector<bool> stored; // by tensor: an item writes it
  std::vector<bool> kept;   // by tensor: made in the forward part, and read from memory by the backward part
  std::vector<llvm::SmallVector<int, 2>> readsOf; // by operation: the operands that an item reads for it, as often as it does

  FusedProblem() = default;
  /// By operation: items whose home it is and that have a launch of their own. Updates of parameters that follow each
  /// other share one.
  std::vector<int> launches;

  /// Of the training step (without what only some steps look at), or of the evaluation. `groups` say what the
  /// forward part and the update are.
  FusedProblem(const Problem &problem, bool evaluation, bool forGpu, const Groups &groups);
};

} // namespace divisi::planning
