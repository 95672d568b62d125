#pragma once
#include "passes/Planning/Problem.h"

#include <map>
#include <set>

namespace divisi::planning {

/// The only factor of a dimension that is larger than one; -1 if there is none or there are several.
int soleFactor(const dist::ShardingRule &rule, llvm::ArrayRef<int> list);

/// A size that should divide but does not: dimension `dim` of a tensor by `parts`.
struct PadRequest {
  int tensor, dim;
  int64_t parts;
};

/// All dimensions that must be padded together with one, because a factor of an operation runs through them. The class
/// ends at operations in which the factor must stay whole or is only a part of a dimension: values are sliced to the
/// model's size before such operations and padded after them.
class PadClass {
public:
  PadClass(const Problem &problem, const PadRequest &request);

  int64_t size() const { return oldSize; }
  int64_t paddedSize() const { return newSize; }
  /// The dimensions of a tensor that are in the class.
  llvm::SmallVector<int> dimsOf(int tensor) const;
  /// Whether a factor of an operation is padded.
  bool grows(int op, int factor) const { return factors.count({op, factor}) != 0; }

private:
  bool connects(const Problem &problem, const Problem::Op &op, int factor) const;
  void collect(const Problem &problem, std::pair<int, int> start);

  int64_t oldSize, newSize;
  std::set<std::pair<int, int>> members; // tensor, dimension
  std::set<std::pair<int, int>> factors; // operation, factor
};

} // namespace divisi::planning
