#pragma once
#include "compiler/RunDefaults.h"
#include "compiler/TrainingState.h"
#include "dialects/Dist/Sync.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace divisi::compiler {

/// The file of initial weights beside the program; an empty name if there is none.
struct WeightsReference {
  std::string file, hashes; ///< of every MiB, FNV-1a, 16 digits each
};

struct Expectation;

/// Describes planned tasks (after assign-buffers) for the runtime, as JSON (runtime/README.md). With an expectation, it
/// includes the calls of a step and their expected times.
std::string writeManifest(mlir::ModuleOp module, llvm::StringRef model, const RunDefaults &defaults,
                          const WeightsReference &weights, const Expectation *expectation = nullptr,
                          const TrainingState &training = {});

/// Checks that names are valid in a manifest, which is JSON, and in a file of weights. Fails with a diagnostic.
mlir::LogicalResult checkNames(mlir::ModuleOp module);

/// The number of ranks of a program of these tasks, with those of servers.
int64_t ranksOf(mlir::ModuleOp module, const dist::Sync &sync);

/// The name of an element type in safetensors and in the manifest, such as "F32".
llvm::StringRef typeName(mlir::Type element);

} // namespace divisi::compiler
