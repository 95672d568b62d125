#pragma once
#include "passes/Planning/Pipeline/LayerProfile.h"
#include "passes/Planning/Problem.h"

namespace divisi::compiler {

/// A profile of layers (one for each ONNX node of the forward part) from a program for one device: sizes from the
/// problem, times from what the program wrote with --profile (`runFile`). A kernel of several nodes counts for the
/// first of them; calls before the loss are forward, those after it backward, and the update counts for nobody.
/// Nothing, with an error, if the file is no profile.
llvm::Expected<planning::LayerProfile> layerTimes(const planning::Problem &problem, const std::string &runFile);

} // namespace divisi::compiler
