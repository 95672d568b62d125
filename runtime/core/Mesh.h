//===- Mesh.h - ranks in a grid of named axes -------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_MESH_H
#define DIVISI_RUNTIME_CORE_MESH_H

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace divisi::runtime {

/// One direction of a mesh.
struct Axis {
  std::string name;
  int64_t size = 1;
};

/// Ranks numbered in row-major order of their indices: the last axis is the fastest. Without axes: one rank.
class Mesh {
public:
  Mesh() = default;
  explicit Mesh(std::vector<Axis> axes) : axes_(std::move(axes)) {}

  const std::vector<Axis> &axes() const { return axes_; }
  /// The position of the axis of this name.
  std::optional<int64_t> find(std::string_view name) const;
  /// That of the stages of a pipeline.
  std::optional<int64_t> stageAxis() const { return find("stage"); }
  /// Number of ranks.
  int64_t size() const;
  /// Index of `rank` along the axis at position `axis`.
  int64_t index(int64_t rank, int64_t axis) const;
  /// Index of `rank` among the pieces that `axes` (major to minor) make.
  int64_t index(int64_t rank, std::span<const int64_t> axes) const;
  /// Number of pieces that `axes` make.
  int64_t count(std::span<const int64_t> axes) const;
  /// The ranks that differ from `rank` only in their indices along `axes`, ordered by these, the first axis major.
  std::vector<int> group(int64_t rank, std::span<const int64_t> axes) const;

private:
  int64_t stride(int64_t axis) const;
  std::vector<Axis> axes_;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_MESH_H
