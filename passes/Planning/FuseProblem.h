#pragma once
#include "passes/Planning/Problem.h"

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
  };
  std::vector<Item> items;  // of every step, in order
  std::vector<bool> stored; // by tensor: an item writes it
  std::vector<bool> kept;   // by tensor: made in the forward part, and read from memory by the backward part
  std::vector<llvm::SmallVector<int, 2>> readsOf; // by operation: the operands that an item reads for it, as often as it does

  FusedProblem() = default;
  /// Of the training step (without what only some steps look at), or of the evaluation. `loss` is the last operation of
  /// the forward part.
  FusedProblem(const Problem &problem, bool evaluation, bool forGpu, int loss);
};

} // namespace divisi::planning
