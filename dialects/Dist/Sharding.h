#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace divisi::dist {

/// How partial values are combined.
enum class Reduction { sum = 0, max = 1, min = 2 };

/// Positions of mesh axes, major to minor.
using Axes = llvm::SmallVector<int, 2>;

/// The inner half of an axis that planning has split in two.
inline constexpr llvm::StringLiteral innerAxis = "inner";

/// A device mesh with named axes. Device numbers are row-major: the last axis varies fastest.
struct Mesh {
  struct Axis {
    std::string name;
    int64_t size;
  };
  std::vector<Axis> axes;

  std::optional<int> find(llvm::StringRef name) const {
    for (auto [i, axis] : llvm::enumerate(axes))
      if (axis.name == name)
        return i;
    return std::nullopt;
  }
  /// The number of shards along these axes.
  int64_t parts(llvm::ArrayRef<int> list) const {
    int64_t product = 1;
    for (int axis : list)
      product *= axes[axis].size;
    return product;
  }
  int64_t devices() const {
    int64_t product = 1;
    for (const Axis &axis : axes)
      product *= axis.size;
    return product;
  }
};

/// The sharding of a tensor on a mesh: the axes along which each dimension is sharded, and the axes over which the
/// devices' values are partial and still to be combined (sorted by position).
struct Sharding {
  llvm::SmallVector<Axes, 4> dims;
  Axes pending;
  Reduction kind = Reduction::sum;

  Sharding() = default;
  explicit Sharding(size_t rank) : dims(rank) {}
  bool operator==(const Sharding &other) const {
    return dims == other.dims && pending == other.pending && (pending.empty() || kind == other.kind);
  }
  bool replicated() const {
    return pending.empty() && llvm::all_of(dims, [](const Axes &axes) { return axes.empty(); });
  }
  /// Whether an axis shards some dimension.
  bool splits(int axis) const {
    return llvm::any_of(dims, [&](const Axes &axes) { return llvm::is_contained(axes, axis); });
  }
};

} // namespace divisi::dist
