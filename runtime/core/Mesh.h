//===- Mesh.h - device mesh of ranks ----------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_MESH_H
#define DIVISI_RUNTIME_CORE_MESH_H

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace divisi::runtime {

/// One axis of a device mesh.
struct Axis {
  std::string name;
  int64_t size = 1;
};

/// A device mesh of ranks, numbered in row-major order: the last axis varies fastest. Without axes there is one rank. A
/// stage of a pipeline may lack axes: its ranks have index 0 along these axes, and represent the positions with other
/// indices.
class Mesh {
public:
  Mesh() = default;
  /// `without`: by stage, the axes that it lacks; empty: none lacks any.
  explicit Mesh(std::vector<Axis> axes, const std::vector<std::vector<int64_t>> &without = {});
  /// Sets, by stage, the axis along which its ranks take microbatches in turn; null: each works on all.
  void setTurns(std::vector<std::optional<int64_t>> axesOfStages) { turns = std::move(axesOfStages); }

  /// Numbers the ranks from `rank` on. No stage may lack an axis.
  void startAt(int64_t rank) { first = rank; }

  const std::vector<Axis> &axes() const { return axes_; }
  /// The position of the axis of this name.
  std::optional<int64_t> find(std::string_view name) const;
  /// The axis of a pipeline's stages.
  std::optional<int64_t> stageAxis() const { return find("stage"); }
  /// Number of ranks.
  int64_t size() const;
  /// Index of `rank` along the axis at position `axis`.
  int64_t index(int64_t rank, int64_t axis) const;
  /// The index of `rank` among the shards along `axes` (major to minor).
  int64_t index(int64_t rank, std::span<const int64_t> axes) const;
  /// The number of shards along `axes`.
  int64_t count(std::span<const int64_t> axes) const;
  /// The rank that differs from `rank` only in its index along the axis at position `axis`. No stage may lack an axis.
  int64_t withIndex(int64_t rank, int64_t axis, int64_t to) const { return rank + (to - index(rank, axis)) * stride(axis); }
  /// The ranks that differ from `rank` only in their indices along `axes`, ordered by these indices, the first axis
  /// major.
  std::vector<int> group(int64_t rank, std::span<const int64_t> axes) const;
  /// Whether some stage lacks an axis.
  bool isNarrow() const { return !places.empty(); }
  /// Whether a stage has the axis at position `axis`.
  bool has(int64_t stage, int64_t axis) const;
  /// The rank with these indices along all axes; 0 along those that its stage lacks.
  int rankAt(std::span<const int64_t> indices) const;
  /// The rank of a stage with the same indices along the axes of that stage.
  int inStage(int64_t rank, int64_t stage) const;
  /// The axis along which the ranks of a stage take microbatches in turn: index r of n has the microbatches r, r + n, ...
  std::optional<int64_t> turnsOf(int64_t stage) const {
    return turns.empty() ? std::nullopt : turns[static_cast<size_t>(stage)];
  }
  bool takesTurns() const { return !turns.empty(); }
  /// The number of those indices of a stage; 1: each of its ranks works on all microbatches.
  int64_t replicasOf(int64_t stage) const {
    std::optional<int64_t> axis = turnsOf(stage);
    return axis ? axes_[static_cast<size_t>(*axis)].size : 1;
  }
  /// The rank of a stage that works on what `rank` works on of a microbatch.
  int inTurn(int64_t rank, int64_t stage, int64_t microbatch) const;

private:
  int64_t stride(int64_t axis) const;
  /// The number of positions if no stage lacked an axis.
  int64_t placeCount() const;
  int64_t placeOf(int64_t rank) const { return places.empty() ? rank - first : places[static_cast<size_t>(rank)]; }
  int rankAtPlace(int64_t place) const {
    return static_cast<int>(ranks.empty() ? place + first : ranks[static_cast<size_t>(place)]);
  }

  std::vector<Axis> axes_;
  int64_t first = 0; // rank
  std::vector<std::optional<int64_t>> turns; // by stage; empty: none takes microbatches in turn
  std::vector<std::vector<int64_t>> lacking; // by stage; empty: none lacks an axis
  // If stages lack axes: the position of each rank in the full mesh, and the rank that represents each position.
  std::vector<int64_t> places, ranks;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_MESH_H
