#pragma once
#include "passes/Planning/ModuleProblem.h"
#include "passes/Planning/PadClass.h"

namespace divisi::planning {

/// Lets the dimensions of a class grow, without changing what the program computes: inputs get a graph.pad, states
/// their larger type (the runtime keeps the rest zero; `graph.unpadded` has the model's shape), and where a contraction
/// or a renewed state would see what lies beyond, a select puts the neutral element there.
void applyPadding(mlir::ModuleOp module, const ModuleProblem &problem, const PadClass &pads);

} // namespace divisi::planning
