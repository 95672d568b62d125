#pragma once
#include "dialects/Dist/Dist.h"

#include "mlir/IR/OpDefinition.h"

namespace divisi::dist {

/// When an operation may be applied to partial values before they are combined.
enum class Linear {
  no,      // relu, softmax
  all,     // f(x + x', y + y') = f(x, y) + f(x', y'): add, reduce_sum
  each,    // linear in every operand while the others are held: matmul, mul
  movement // moves elements: commutes with every reduction: transpose, reshape
};

/// Factors are the independent index dimensions of an operation: `matmul: (b m k), (b k n) -> (b m n), sum k`.
/// A dimension is the product of a list of factors, major to minor (reshape), or a multiple of its one factor (windows
/// with a stride), or has none: it is never split.
struct ShardingRule {
  struct Factor {
    std::string name;
    int64_t size = 1;
    std::optional<Reduction> reduction = std::nullopt; // how results combine when this contracted factor is split
    bool whole = false;                                // may not be split
    bool indexed = false;                              // reached through indices (a table's rows): not iterated over
    bool windowed = false; // pieces need a border of their neighbours' (convolution): the size may not grow
    int64_t least = 1;     // the smallest size of a piece
  };
  using Dims = llvm::SmallVector<llvm::SmallVector<int, 1>, 4>;

  llvm::SmallVector<Factor> factors;
  llvm::SmallVector<Dims> operands, results;
  Linear linear = Linear::no;
  /// An operand that the contraction adds to (scatter_add): it must be partial over the same axes as the result. -1:
  /// none.
  int accumulator = -1;
  /// The result is zero everywhere: a pending sum over any axes.
  bool zero = false;

  ShardingRule() = default;
  /// "m k, k n -> m n" for the operation `op`, from whose types the sizes come unless the text has them. "." is a dimension
  /// without factor, "g*i" one of several, "()" a scalar, and "*" a tensor none of whose dimensions has a factor. Clauses may follow:
  /// " | m=4 k=8" sizes, " | sum k" contracted factors (or max, min), " | whole k", " | indexed k", " | windowed k",
  /// " | least k=2", " | linear each" (or all, movement), " | accumulates #0", " | zero".
  ShardingRule(llvm::StringRef text, mlir::Operation *op);
  /// The rule in that form, with all sizes and every clause that holds; the constructor makes the same rule of it.
  std::string str() const;
  /// The same factors d0, d1, ... through every operand and result.
  static ShardingRule elementwise(mlir::Operation *op, Linear linear = Linear::no);
  /// Each result dimension d comes from operand dimension `source[d]` (-1: from none), for operands of one shape.
  static ShardingRule gather(mlir::Operation *op, llvm::ArrayRef<int64_t> source, Linear linear = Linear::movement);
  /// Row-major reshape: common factors of both shapes.
  static ShardingRule reshape(mlir::Operation *op);
  /// Reduction over `dims`, which the result lacks.
  static ShardingRule reduce(mlir::Operation *op, llvm::ArrayRef<int64_t> dims, std::optional<Reduction> kind);

  ShardingRule &contract(llvm::StringRef name, Reduction kind);
  ShardingRule &whole(llvm::StringRef name);
  ShardingRule &indexed(llvm::StringRef name);
  ShardingRule &linearIn(Linear l) {
    linear = l;
    return *this;
  }
  ShardingRule &accumulateInto(int operand) {
    accumulator = operand;
    return *this;
  }
  int addFactor(llvm::StringRef name, int64_t size);
  /// The position of a factor, or -1.
  int indexOf(llvm::StringRef name) const;
  /// The position of a factor, which is added if there is none of the name.
  int find(llvm::StringRef name);
};

class ShardingRuleInterface;
/// The verifier of every operation with a rule: shardings of operands and results agree factor by factor, and what is
/// partial is said to be pending. Errors name the factor, the dimension and the axis.
mlir::LogicalResult verifySharding(ShardingRuleInterface op);

/// What an operation may ask when its types become local.
class LocalContext {
public:
  virtual ~LocalContext() = default;
  virtual mlir::OpBuilder &builder() = 0;
  virtual const Mesh &mesh() const = 0;
  /// The operation's split.
  virtual llvm::ArrayRef<Axes> factorAxes() const = 0;
  /// The number of a factor of the global operation, or -1.
  virtual int factorOf(llvm::StringRef name) const = 0;
  /// The number of this device's piece under a split over these axes (major to minor): an int64 scalar.
  virtual mlir::Value pieceIndex(llvm::ArrayRef<int> axes) = 0;
  /// The shape of a result before partitioning.
  virtual llvm::ArrayRef<int64_t> globalShape(unsigned result) const = 0;
};

} // namespace divisi::dist

#include "dialects/Dist/ShardingRuleInterface.h.inc"
