#pragma once
#include "dialects/Dist/Tasks.h"
#include "dialects/Graph/Arguments.h"
#include "passes/Pipelining/Passes.h"

namespace divisi::pipelining {

/// The end of errors about what needs the whole batch.
inline constexpr llvm::StringLiteral notInMicrobatches =
    "it cannot be computed in microbatches: leave out --accumulate and --microbatches, and stages keep the batch whole "
    "with --microbatches 1";

/// When the operations of a function with microbatches run. In an asynchronous step everything but `anywhere` runs for
/// one minibatch.
enum class Part {
  anywhere, // in every task that uses it: cheap, and computed from inputs, scalars, step and seed alone (in an
            // asynchronous step also from weights)
  start,    // once, before the microbatches need it (what is gathered for one use is gathered in each, and lives no longer)
  forward,  // for each microbatch: what its contribution to the loss depends on
  backward, // for each microbatch: the rest
  finish,   // once, after the microbatches are summed
};

/// Assigns the operations of a function to parts of the step: by reachability from the scalar `microbatch` (in an
/// asynchronous step everything depends on it) and through graph.accumulate, which belongs to the part that computes
/// its operand.
class StepParts {
public:
  /// Fails with an error at the sum if a microbatch depends on a sum over all microbatches.
  static mlir::FailureOr<StepParts> of(mlir::func::FuncOp function);

  Part at(mlir::Operation *op) const { return parts.at(op); }
  /// Whether it is computed for each microbatch.
  bool isTimed(mlir::Operation *op) const {
    Part part = parts.at(op);
    return part == Part::forward || part == Part::backward;
  }
  /// Whether tasks recompute a value instead of keeping or receiving it: a cheap one that is computed before or after
  /// the microbatches and is no smaller than its operand (a bias repeated along the batch, the clipping factor
  /// broadcast to all elements of a gradient).
  bool isRepeated(mlir::Value value) const;
  /// What a backward task reads in place of a value of the forward pass: the value itself, or one that is no larger and
  /// from which it is recomputed cheaply (the input of a gelu, for everything that its gradient reads).
  mlir::Value keptFor(mlir::Value value) const {
    auto it = kept.find(value);
    return it == kept.end() ? value : it->second;
  }
  /// Whether it belongs to the task of its user, but to no layer: a parameter that is gathered for one use; in an
  /// asynchronous step all that depends on owned state and on nothing of the batch.
  bool isOfState(mlir::Operation *op) const { return ofState.contains(op); }
  /// Whether it takes few FLOPs per element.
  bool isCheap(mlir::Operation *op) const;
  /// Whether every task can compute the value by itself.
  bool isAnywhere(mlir::Value value) const;
  /// The operations of the backward pass that no earlier stage depends on: gradients of weights. `sumsFirst`: accumulate-first
  /// is still to come.
  llvm::DenseSet<mlir::Operation *> weightGradients(mlir::func::FuncOp function, llvm::function_ref<int(mlir::Operation *)> stageOf,
                                                    bool sumsFirst = false) const;

private:
  /// The part of all users of an operation; none if they are in several, or none use it.
  std::optional<Part> partOfUsers(mlir::Operation *op) const;
  void findKept(mlir::Block &block, bool weightsChange);
  llvm::DenseMap<mlir::Operation *, Part> parts;
  llvm::DenseMap<mlir::Value, mlir::Value> kept;
  llvm::DenseSet<mlir::Operation *> ofState;
};

using graph::isScalar, graph::nameOfArgument, graph::roleOf;
/// The attribute of a function whose step is one minibatch, with tasks that run in several steps.
inline constexpr llvm::StringLiteral asynchronousStep = "graph.asynchronous";
/// Whether a step of the function is one minibatch whose tasks run in several steps.
bool isAsynchronous(mlir::func::FuncOp function);
/// Removes what make-train's mark-gradients has added, for steps whose gradients are summed over microbatches, or whole.
void unmarkGradients(mlir::ModuleOp module);
/// Whether an argument is state that one stage owns: a parameter, optimizer state or a buffer. All stages have step and
/// seed.
bool isOwned(mlir::BlockArgument argument);
/// Whether an operation adds to a value that is summed over the microbatches, and to nothing else: accumulate-first sums what
/// other stages contribute before it is sent, once in a step.
bool isSummedLater(mlir::Operation *op);

} // namespace divisi::pipelining
