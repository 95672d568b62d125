#pragma once
#include "passes/Planning/ModuleProblem.h"
#include "passes/Planning/PadClass.h"

namespace divisi::planning {

/// Pads the dimensions of a class without changing what the program computes. Inputs get a graph.pad, state its larger
/// type (the runtime keeps the padding zero; `graph.unpadded` has the model's shape). Where a contraction or renewed
/// state would read the padding, a select replaces it by the neutral element.
void applyPadding(mlir::ModuleOp module, const ModuleProblem &problem, const PadClass &pads);

} // namespace divisi::planning
