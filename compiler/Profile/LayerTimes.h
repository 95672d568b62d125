#pragma once
#include "passes/Planning/Pipeline/LayerProfile.h"
#include "passes/Planning/Problem.h"

#include "mlir/IR/BuiltinOps.h"

namespace divisi::compiler {

/// A profile of layers (one for each ONNX node of the forward pass) from a program for one device: sizes from the
/// problem, times from what the program wrote with --profile (`runFile`). A kernel of several nodes counts for the
/// first of them. Calls before the loss are forward, those after it backward; the update is left out. Fails if the file
/// is no profile.
llvm::Expected<planning::LayerProfile> layerTimes(const planning::Problem &problem, const std::string &runFile);

/// The same of a module at the level train with simple operations. Fails without a text if a diagnostic was emitted.
llvm::Expected<planning::LayerProfile> layerTimes(mlir::ModuleOp module, const std::string &runFile);

} // namespace divisi::compiler
