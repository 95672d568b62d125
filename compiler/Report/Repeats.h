#pragma once
#include "llvm/Support/JSON.h"

// Parts of an explanation that has a line for each layer, and equal layers as one.
namespace divisi::compiler {

/// Prints parameters with their shardings, those of equal layers as one, and for some of them what other shardings cost.
void printParameters(const llvm::json::Array &parameters, llvm::raw_ostream &out);

/// Prints layers, equal ones as one and the slowest first, with their collectives. `step` is the time of a step in ms.
void printLayers(const llvm::json::Array &layers, double step, llvm::raw_ostream &out);

} // namespace divisi::compiler
