#pragma once
#include "dialects/Dist/ShardingRule.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace divisi::training {

/// Where the samples of the batch lie in a value: in the dimension `dim`, as a digit of its index that has `outer` times as
/// many values before it. A dimension of -1: in no such order.
struct SamplePlace {
  int dim = 0;
  int64_t outer = 1;
  bool isFirst() const { return dim == 0 && outer == 1; }
};

/// The places in all values of @loss that depend on the inputs, by the operations' sharding rules. The batch is the first
/// dimension of the first input, and of others of its size.
class SamplePlaces {
public:
  explicit SamplePlaces(mlir::func::FuncOp function);
  std::optional<SamplePlace> of(mlir::Value value) const;
  int64_t batch() const { return size; }

  /// How an operation combines samples: the operands that have them, and what their sum (or maximum, ...) becomes.
  struct Combination {
    dist::Reduction kind;
    llvm::SmallVector<unsigned> operands;
  };
  /// Null if it combines none.
  const Combination *combines(mlir::Operation *op) const;

private:
  void add(mlir::Operation &op, const dist::ShardingRule &rule);
  llvm::DenseMap<mlir::Value, SamplePlace> places;
  llvm::DenseMap<mlir::Operation *, Combination> combinations;
  int64_t size = 0; // of the batch
};

} // namespace divisi::training
