#pragma once
#include "dialects/Dist/Sharding.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

namespace divisi::dist {

/// The axes of a stage's mesh that each stage of a pipeline really has: a stage without one is a single device where
/// others are as many as the axis is long. It has the whole of what they split over that axis.
class StageAxes {
public:
  /// All stages have all axes.
  StageAxes() = default;
  /// "data+model,data,none": an entry for each stage along the axis "stage".
  static StageAxes parse(llvm::StringRef text);
  /// `dist.stage_axes` of a function, or what stands in a plan file. Null or malformed: all axes.
  static StageAxes of(mlir::Attribute attr);
  static StageAxes of(mlir::Operation *function);

  /// What is wrong with them for so many stages along the axis "stage" and this mesh, in words; or nothing. (Here and
  /// below the mesh may have that axis, too: it is none of a stage's.)
  std::string invalid(int64_t stages, const Mesh &mesh) const;

  bool empty() const { return lists.empty(); }
  bool operator==(const StageAxes &other) const { return lists == other.lists; }
  size_t size() const { return lists.size(); }
  /// Stages take turns on the devices, as in an interleaved schedule.
  bool has(int64_t stage, llvm::StringRef axis) const;
  /// Positions of axes of the mesh that the stage lacks, ascending.
  Axes lacking(int64_t stage, const Mesh &mesh) const;
  /// Devices of a stage.
  int64_t devices(int64_t stage, const Mesh &mesh) const;

  /// Devices of all stages before this one.
  int64_t devicesBefore(int64_t stage, const Mesh &mesh) const;

  /// The form that `parse` reads.
  std::string text() const;
  mlir::ArrayAttr toAttr(mlir::MLIRContext *context) const;

private:
  std::vector<std::vector<std::string>> lists;
};

} // namespace divisi::dist
