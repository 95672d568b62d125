#pragma once
#include "compiler/Pipeline.h"

#include "llvm/Support/JSON.h"

namespace divisi::compiler {

/// Notes in a module of level graph what its training will compute, whatever devices, plan or target it gets: the
/// attribute graph.program, a dictionary of texts. `model` is a hash of the functions (operations, operands,
/// attributes, types, constants; no names of values, no locations); `optimizer` and `numerics` are spelled out.
void noteProgram(mlir::ModuleOp module, const TrainOptions &train, const MicrobatchOptions &microbatches);

/// Adds to a module that is written as a dump what it takes to see whether the dump was edited.
void sealDump(mlir::ModuleOp module);

/// Of a module of level train to exec that was read back: if it was edited, or does not say what it computes, its own
/// contents become its `model`.
void checkSeal(mlir::ModuleOp module);

/// What the manifest says of the program; empty if nobody noted it.
llvm::json::Object meaningOf(mlir::ModuleOp module);

} // namespace divisi::compiler
