#pragma once
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpDefinition.h"

#include <optional>
#include <string>

namespace divisi::dist {

/// How partial values are combined.
enum class Reduction { sum, max, min };

/// When an operation may be applied to partial values before they are combined.
enum class Linear {
  no,      // relu, softmax
  all,     // f(x + x', y + y') = f(x, y) + f(x', y'): add, reduce_sum
  each,    // linear in every operand while the others are held: matmul, mul
  movement // moves elements: commutes with every reduction: transpose, reshape
};

/// Factors are the independent index dimensions of an operation: `matmul: (b m k), (b k n) -> (b m n), sum k`.
/// A dimension is the product of a list of factors, major to minor (reshape), or has none: it is never split.
struct ShardingRule {
  struct Factor {
    std::string name;
    int64_t size = 1;
    std::optional<Reduction> reduction = std::nullopt; // how results combine when this contracted factor is split
    bool whole = false;                 // may not be split
  };
  using Dims = llvm::SmallVector<llvm::SmallVector<int, 1>, 4>;

  llvm::SmallVector<Factor> factors;
  llvm::SmallVector<Dims> operands, results;
  Linear linear = Linear::no;

  ShardingRule() = default;
  /// "m k, k n -> m n" for the operation `op`, from whose types the sizes come. "." is a dimension without factor,
  /// and "*" a tensor none of whose dimensions has one.
  ShardingRule(llvm::StringRef text, mlir::Operation *op);
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
  ShardingRule &linearIn(Linear l) {
    linear = l;
    return *this;
  }
  int addFactor(llvm::StringRef name, int64_t size);

private:
  int find(llvm::StringRef name);
};

} // namespace divisi::dist

#include "dialects/Dist/ShardingRuleInterface.h.inc"
