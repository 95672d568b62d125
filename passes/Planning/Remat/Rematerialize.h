#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace divisi::planning {

/// A segment of the forward pass of @train that the backward pass recomputes (rematerialization, activation
/// checkpointing) instead of keeping its values: the nodes from `first` to `last`, by name.
struct NamedRemat {
  std::string first, last;
};

/// The segments whose rematerialization saves memory, most bytes saved per second first. Needs simple operations (after
/// decompose), and scalars of their own for each user (separateScalars): they are no memory that a segment could save.
std::vector<NamedRemat> rematSegments(mlir::ModuleOp module);

/// Recomputes segments: clones their operations before the first operation of the backward pass that reads one of their
/// values. The clones read values of earlier segments through barriers (graph.reshape), so that common subexpression
/// elimination does not merge them with the originals. Values that are much smaller than the segment's largest one, and
/// those that later nodes of the forward pass read, are kept. Fails if a node does not exist.
llvm::Error rematerialize(mlir::ModuleOp module, llvm::ArrayRef<NamedRemat> segments);

/// The effect of recomputing one segment: the values that are no longer kept, the values of earlier segments from which
/// they are recomputed, and the operations for it, in program order.
struct RematEffect {
  int stage;
  llvm::SmallVector<mlir::Value> dropped, from;
  llvm::SmallVector<mlir::Operation *> again;
};

/// The effects of all segments of rematSegments, with these stages of operations. Does not change the module.
std::vector<RematEffect> rematEffects(mlir::func::FuncOp train, llvm::function_ref<int(mlir::Operation *)> stageOf);

/// Warns that rematerialization was requested but no segment exists.
void warnOfNoParts(mlir::ModuleOp module);

/// Recomputes the best segments of rematSegments, at most `count`, and returns them. Warns if there are none.
std::vector<NamedRemat> rematerializeBest(mlir::ModuleOp module, int64_t count);

} // namespace divisi::planning
