#pragma once
#include "dialects/Dist/ShardingRule.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/DenseSet.h"

namespace divisi::training {

/// Where the samples of the batch lie in a value: in the dimension `dim`, as a digit of its index that has `outer` times
/// as many values before it. A dimension of -1: in no such order.
struct SamplePlace {
  int dim = 0;
  int64_t outer = 1;
  bool isFirst() const { return dim == 0 && outer == 1; }
  bool operator==(const SamplePlace &) const = default;
};

/// The places in all values of @loss that depend on the inputs, and in constants that are combined with these, by the
/// operations' sharding rules: several where samples are compared with each other. The batch is the first dimension of
/// the first input, and of others of its size.
class SamplePlaces {
public:
  explicit SamplePlaces(mlir::func::FuncOp function);
  /// Finds the places in an operation's results, and what it combines; for operations that are not in the function.
  void add(mlir::Operation &op);
  /// Nothing for a value that does not depend on the inputs.
  llvm::ArrayRef<SamplePlace> of(mlir::Value value) const;
  /// Whether the samples lie in a known dimension of a value, and the first dimension is not theirs.
  bool isElsewhere(mlir::Value value) const;
  int64_t batch() const { return size; }

  /// How an operation combines samples: what their sum (or maximum, ...) becomes, and the places in its operands.
  struct Combination {
    dist::Reduction kind = dist::Reduction::sum;
    llvm::SmallVector<std::pair<unsigned, SamplePlace>, 2> places; // operand, place
    int dims = 0; // of samples: places that several operands have count once
  };
  /// Null if it combines none.
  const Combination *combines(mlir::Operation *op) const;
  /// Whether an operation combines samples in a way that its sharding rule does not say: they lie in factors that stay
  /// whole.
  bool needsWhole(mlir::Operation *op) const { return whole.contains(op); }

private:
  using Places = llvm::DenseMap<mlir::Value, llvm::SmallVector<SamplePlace, 1>>;
  Places known, places; // of inputs and constants; of all values
  llvm::DenseSet<mlir::Value> constants; // values that depend on no argument
  llvm::DenseMap<mlir::Operation *, Combination> combinations;
  llvm::DenseSet<mlir::Operation *> whole;
  int64_t size = 0; // of the batch
};

} // namespace divisi::training
