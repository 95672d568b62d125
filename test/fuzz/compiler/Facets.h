//===- Facets.h - what passes ask of verified operations --------*- C++ -*-===//
#ifndef DIVISI_TEST_FUZZ_COMPILER_FACETS_H
#define DIVISI_TEST_FUZZ_COMPILER_FACETS_H

#include "mlir/IR/BuiltinOps.h"

namespace divisi::fuzz {

/// Asks each operation of level graph for its facets, as passes do: sharding rule, cost, gradient, decomposition, evaluation and accuracy, and operations of
/// planned functions for what follows from their shardings. Ends the process if an answer is of another type than it should be, or if what they build does
/// not verify. Large modules and tensors are left out.
void askFacets(mlir::ModuleOp module);

} // namespace divisi::fuzz

#endif // DIVISI_TEST_FUZZ_COMPILER_FACETS_H
