#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace divisi::planning {

/// A part of @train's forward part whose values the backward part computes again instead of keeping them: the nodes
/// from one to another, by name.
struct NamedRemat {
  std::string first, last;
};

/// The parts that are worth it, most bytes saved for the time first. Needs simple operations (after decompose).
std::vector<NamedRemat> rematSegments(mlir::ModuleOp module);

/// Computes such parts again: their operations are cloned before the first operation of the backward part that reads a
/// value of it, from values of earlier parts behind barriers (graph.reshape), so that clones and originals stay two.
/// What is much smaller than the rest, and what later parts of the forward part read, is kept. An error if
/// there are no such nodes.
llvm::Error rematerialize(mlir::ModuleOp module, llvm::ArrayRef<NamedRemat> segments);

/// What computing such a part again changes: values that are no longer kept, what they are computed from (values of
/// earlier parts), and what with, in the order of the program.
struct RematEffect {
  int stage;
  llvm::SmallVector<mlir::Value> dropped, from;
  llvm::SmallVector<mlir::Operation *> again;
};

/// That of all parts of rematSegments, in a pipeline with these stages of operations. Changes nothing.
std::vector<RematEffect> rematEffects(mlir::func::FuncOp train, llvm::function_ref<int(mlir::Operation *)> stageOf);

/// Where some were asked for and there are none.
void warnOfNoParts(mlir::ModuleOp module);

/// Does so with the best of rematSegments, so many if there are so many, and says which they were; warns if there are
/// none.
std::vector<NamedRemat> rematerializeBest(mlir::ModuleOp module, int64_t count);

} // namespace divisi::planning
