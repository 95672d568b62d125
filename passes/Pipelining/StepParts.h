#pragma once
#include "dialects/Dist/Tasks.h"
#include "dialects/Graph/Arguments.h"
#include "passes/Pipelining/Passes.h"

namespace divisi::pipelining {

/// When the operations of a function with microbatches run. Of an asynchronous step all that is not anywhere is for one
/// minibatch.
enum class Part {
  anywhere, // from inputs, scalars, step and seed alone (of an asynchronous step also from weights), with little
            // arithmetic: wherever it is needed
  start,    // once, before the microbatches need it
  forward,  // for each microbatch: what its share of the loss needs
  backward, // for each microbatch: the rest
  finish,   // once, when the microbatches are summed
};

/// The parts of a function: by reachability from the scalar `microbatch` (in an asynchronous step from anything) and
/// through graph.accumulate, which belongs to the part that it sums.
class StepParts {
public:
  /// Fails, at the operation, if something of a microbatch needs a sum over all of them.
  static mlir::FailureOr<StepParts> of(mlir::func::FuncOp function);

  Part at(mlir::Operation *op) const { return parts.at(op); }
  /// Computed for each microbatch.
  bool isTimed(mlir::Operation *op) const {
    Part part = parts.at(op);
    return part == Part::forward || part == Part::backward;
  }
  /// Whether tasks had better compute a value again than keep or send it: a cheap one that is no smaller than the one
  /// that it is made from before the microbatches or behind them (a bias repeated along the batch, the factor of
  /// clipping for all elements of a gradient).
  bool isRepeated(mlir::Value value) const;
  /// What a backward task reads instead of a value of the forward part: the value itself, or one that is no larger and
  /// from which it is computed again with little arithmetic (a gelu's input for all that its gradient needs).
  mlir::Value keptFor(mlir::Value value) const {
    auto it = kept.find(value);
    return it == kept.end() ? value : it->second;
  }
  /// In an asynchronous step: from owned state, and from nothing of the batch (a gathered parameter).
  bool isOfState(mlir::Operation *op) const { return ofState.contains(op); }
  /// Little arithmetic for each element.
  bool isCheap(mlir::Operation *op) const;
  /// Whether every stage and task can have the value for itself.
  bool isAnywhere(mlir::Value value) const;
  /// Of the backward part with stages, what no earlier stage waits for: the gradients of weights.
  llvm::DenseSet<mlir::Operation *> weightGradients(mlir::func::FuncOp function,
                                                    llvm::function_ref<int(mlir::Operation *)> stageOf) const;

private:
  void findKept(mlir::Block &block, bool weightsChange);
  llvm::DenseMap<mlir::Operation *, Part> parts;
  llvm::DenseMap<mlir::Value, mlir::Value> kept;
  llvm::DenseSet<mlir::Operation *> ofState;
};

using graph::isScalar, graph::nameOfArgument;
/// Whether a function has a minibatch for each step, whose tasks run in several of them.
bool isAsynchronous(mlir::func::FuncOp function);
/// A state that some stage owns: a parameter, a moment or a buffer, not step and seed, which all have.
bool isOwned(mlir::BlockArgument argument);

} // namespace divisi::pipelining
