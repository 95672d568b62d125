#pragma once
#include "dialects/Dist/Sharding.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

namespace divisi::dist {

/// The axes of the stages' mesh that each stage of a pipeline has. A stage that lacks an axis is one device where other
/// stages have several; what those shard along the axis is replicated on it.
class StageAxes {
public:
  /// All stages have all axes.
  StageAxes() = default;
  /// "data+model,data,none": an entry for each stage along the axis "stage".
  static StageAxes parse(llvm::StringRef text);
  /// Parses `dist.stage_axes` of a function or plan. Null or malformed: all stages have all axes.
  static StageAxes of(mlir::Attribute attr);
  static StageAxes of(mlir::Operation *function);

  /// An error text if they do not fit this mesh and this number of stages along the axis "stage"; else "". Here and
  /// below the mesh may include the axis "stage", which is then ignored.
  std::string invalid(int64_t stages, const Mesh &mesh) const;

  bool empty() const { return lists.empty(); }
  bool operator==(const StageAxes &other) const { return lists == other.lists; }
  size_t size() const { return lists.size(); }
  /// Whether a stage has an axis. Stages are assigned to devices round-robin, as in an interleaved schedule.
  bool has(int64_t stage, llvm::StringRef axis) const;
  /// Positions of the mesh axes that the stage lacks, ascending.
  Axes lacking(int64_t stage, const Mesh &mesh) const;
  /// The number of devices of a stage.
  int64_t devices(int64_t stage, const Mesh &mesh) const;

  /// The number of devices of all earlier stages.
  int64_t devicesBefore(int64_t stage, const Mesh &mesh) const;

  /// These axes and those of replicas that take microbatches in turn, of which each stage has a number. Puts an axis
  /// "turn", "turn2", ... in front of the mesh (which lacks the axis "stage") for each number above 1.
  StageAxes withTurns(llvm::ArrayRef<int64_t> replicas, Mesh &mesh) const;
  /// The position of the axis along which a stage's replicas take microbatches in turn: replica r of n has the
  /// microbatches r, r + n, ... Null: each device has its share of every microbatch.
  std::optional<int> turnsOf(int64_t stage, const Mesh &mesh) const;
  /// Whether some stage's replicas do.
  bool takesTurns() const;
  /// Whether an axis has the name of one that `withTurns` adds.
  static bool isTurn(llvm::StringRef axis);

  /// The text that `parse` reads.
  std::string text() const;
  mlir::ArrayAttr toAttr(mlir::MLIRContext *context) const;

private:
  std::vector<std::vector<std::string>> lists;
};

} // namespace divisi::dist
