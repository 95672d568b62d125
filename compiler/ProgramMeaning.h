#pragma once
#include "compiler/Pipeline.h"
#include "dialects/Dist/Sync.h"

#include "llvm/Support/JSON.h"

namespace divisi::compiler {

/// Notes in a module of level graph what its training will compute, independent of devices, plan and target: the
/// attribute graph.program, a dictionary of texts. `model` is a hash of the functions (operations, operands,
/// attributes, types, constants; no names of values, no locations); `optimizer` and `numerics` are spelled out.
void noteProgram(mlir::ModuleOp module, const TrainOptions &train, const MicrobatchOptions &microbatches);

/// Adds to `numerics` that training is asynchronous, which a search may decide later.
void noteSchedule(mlir::ModuleOp module, const MicrobatchOptions &microbatches);

/// Notes how the replicas of a module of level train to exec are kept in step, if that decides what the training computes.
void noteSync(mlir::ModuleOp module, const dist::Sync &sync);

/// Adds to a module that is dumped what checkSeal needs to detect that the dump was edited.
void sealDump(mlir::ModuleOp module);

/// For a module of level train to exec that was read back: if it was edited, or does not say what it computes, a hash
/// of its own contents becomes its `model`.
void checkSeal(mlir::ModuleOp module);

/// The program's meaning for the manifest; empty if it was not noted.
llvm::json::Object meaningOf(mlir::ModuleOp module);

} // namespace divisi::compiler
