#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace divisi::dist {

/// How partial values are combined.
enum class Reduction { sum = 0, max = 1, min = 2 };

/// Positions of mesh axes, major to minor.
using AxesRef = llvm::ArrayRef<int8_t>;

/// A list of such positions, each at most once. Plans hold very many, so that it has the size of a pointer.
class Axes {
public:
  using value_type = int8_t;
  using iterator = int8_t *;
  using const_iterator = const int8_t *;
  static constexpr size_t most = 7; // axes of a mesh

  Axes() = default;
  Axes(std::initializer_list<int> axes) {
    for (int axis : axes)
      push_back(axis);
  }
  explicit Axes(AxesRef axes) { append(axes.begin(), axes.end()); }

  bool empty() const { return count == 0; }
  size_t size() const { return count; }
  int8_t &operator[](size_t i) { return list[i]; }
  int8_t operator[](size_t i) const { return list[i]; }
  int8_t back() const { return list[count - 1]; }
  iterator begin() { return list; }
  iterator end() { return list + count; }
  const_iterator begin() const { return list; }
  const_iterator end() const { return list + count; }
  operator AxesRef() const { return {list, count}; }

  void push_back(int axis) {
    assert(count < most && "more axes than a mesh has");
    list[count++] = static_cast<int8_t>(axis);
  }
  void pop_back() { list[--count] = 0; }
  int pop_back_val() {
    const int axis = back();
    pop_back();
    return axis;
  }
  template <typename Iterator> void append(Iterator first, Iterator last) {
    for (; first != last; ++first)
      push_back(*first);
  }
  template <typename Iterator> void assign(Iterator first, Iterator last) { // (which may be of this list)
    Axes made;
    made.append(first, last);
    *this = made;
  }
  void clear() { *this = Axes(); }
  void erase(iterator first, iterator last) {
    iterator rest = std::copy(last, end(), first);
    while (end() != rest)
      pop_back();
  }
  void insertFirst(int axis) {
    push_back(axis);
    std::rotate(begin(), end() - 1, end());
  }

  bool operator==(const Axes &other) const { return AxesRef(*this) == AxesRef(other); }
  bool operator!=(const Axes &other) const { return !(*this == other); }
  bool operator<(const Axes &other) const {
    return std::lexicographical_compare(begin(), end(), other.begin(), other.end());
  }

private:
  uint8_t count = 0;
  int8_t list[most] = {}; // those that are not in use are 0
};

static_assert(sizeof(Axes) == 8);

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
  int64_t parts(AxesRef list) const {
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
