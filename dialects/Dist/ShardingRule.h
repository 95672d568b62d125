#pragma once
#include "dialects/Dist/Dist.h"

#include "mlir/IR/OpDefinition.h"

namespace divisi::dist {

/// When an operation may be applied to partial values before they are combined.
enum class Linear {
  no,      // relu, softmax
  all,     // f(x + x', y + y') = f(x, y) + f(x', y'): add, reduce_sum
  each,    // linear in each operand while the others are constant: matmul, mul
  movement // moves elements: commutes with every reduction: transpose, reshape
};

/// Where an elementwise operation's result is zero: where all operands are (sqrt), or where any is (mul). Booleans do not count (select).
enum class Zeros { unknown, all, any };

/// Factors are the independent index dimensions of an operation: `matmul: (b m k), (b k n) -> (b m n), sum k`. A
/// dimension is the product of a list of factors, major to minor (reshape), or a multiple of its one factor (strided
/// windows), or has no factor and is never sharded.
struct ShardingRule {
  struct Factor {
    std::string name;
    int64_t size = 1;
    std::optional<Reduction> reduction = std::nullopt; // of partial results, if this contracted factor is sharded
    bool whole = false;                                // may not be sharded
    bool indexed = false;                              // accessed through indices (a table's rows), not iterated over
    bool windowed = false; // shards need borders of their neighbours (convolution); not padded
    bool skewed = false;   // the shard with the most work has twice the average (queries under a causal mask)
    int64_t least = 1;     // the smallest size of a shard
  };
  using Dims = llvm::SmallVector<llvm::SmallVector<int, 1>, 4>;

  llvm::SmallVector<Factor> factors;
  llvm::SmallVector<Dims> operands, results;
  Linear linear = Linear::no;
  /// The operand to which the contraction adds (scatter_add): it must be partial over the same axes as the result. -1:
  /// none.
  int accumulator = -1;
  /// The result is zero everywhere, so that it may be pending over any axes.
  bool zero = false;

  ShardingRule() = default;
  /// Parses "m k, k n -> m n" for the operation `op`. The sizes are those of its types unless the text has sizes. "." is
  /// a dimension without factor, "g*i" a dimension of several factors, "()" a scalar, and "*" a tensor without factors.
  /// Clauses may follow: " | m=4 k=8" sizes, " | sum k" contracted factors (or max, min), " | whole k", " | indexed k",
  /// " | windowed k", " | skewed k", " | least k=2", " | linear each" (or all, movement), " | accumulates #0", " | zero".
  ShardingRule(llvm::StringRef text, mlir::Operation *op);
  /// The rule as such a text, with all sizes and all clauses that apply. The constructor parses it to the same rule.
  std::string str() const;
  /// The same factors d0, d1, ... in every operand and result.
  static ShardingRule elementwise(mlir::Operation *op, Linear linear = Linear::no);
  /// Each result dimension d has the factor of operand dimension `source[d]` (-1: none), for operands of one shape.
  static ShardingRule gather(mlir::Operation *op, llvm::ArrayRef<int64_t> source, Linear linear = Linear::movement);
  /// Row-major reshape: the common factors of both shapes.
  static ShardingRule reshape(mlir::Operation *op);
  /// Reduction over `dims`, which the result does not have.
  static ShardingRule reduce(mlir::Operation *op, llvm::ArrayRef<int64_t> dims, std::optional<Reduction> kind);

  /// Whether the operation is linear in each of its two operands and sums over a factor: matmuls, convolutions and their
  /// gradients.
  bool isContraction() const;

  ShardingRule &contract(llvm::StringRef name, Reduction kind);
  ShardingRule &whole(llvm::StringRef name);
  ShardingRule &indexed(llvm::StringRef name);
  ShardingRule &skewed(llvm::StringRef name);
  ShardingRule &linearIn(Linear l) {
    linear = l;
    return *this;
  }
  ShardingRule &accumulateInto(int operand) {
    accumulator = operand;
    return *this;
  }
  int addFactor(llvm::StringRef name, int64_t size);
  /// The position of a factor; -1 if there is none of this name.
  int indexOf(llvm::StringRef name) const;
  /// The position of a factor; adds it if there is none of this name.
  int find(llvm::StringRef name);
};

class ShardingRuleInterface;
/// The verifier of every operation with a rule: the shardings of operands and results agree in every factor, and
/// partial results are pending. Errors name the factor, the dimension and the axis.
mlir::LogicalResult verifySharding(ShardingRuleInterface op);

/// What an operation can query when its types become local.
class LocalContext {
public:
  virtual ~LocalContext() = default;
  virtual mlir::OpBuilder &builder() = 0;
  virtual const Mesh &mesh() const = 0;
  /// The axes of the operation's factors.
  virtual llvm::ArrayRef<Axes> factorAxes() const = 0;
  /// The number of a factor of the global operation; -1 if there is none.
  virtual int factorOf(llvm::StringRef name) const = 0;
  /// The number of this device's shard along these axes (major to minor): an int64 scalar.
  virtual mlir::Value pieceIndex(AxesRef axes) = 0;
  /// The shape of a result before partitioning.
  virtual llvm::ArrayRef<int64_t> globalShape(unsigned result) const = 0;
};

} // namespace divisi::dist

#include "dialects/Dist/ShardingRuleInterface.h.inc"
