#pragma once
#include "dialects/Graph/Graph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace divisi::pipelining {
/// Attribute of a module that was split into tasks: the names of all state, in the order of the function's arguments
/// before the split.
inline constexpr llvm::StringLiteral stateOrder = "graph.state_order";

#define GEN_PASS_DECL
#include "passes/Pipelining/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/Pipelining/Passes.h.inc"
} // namespace divisi::pipelining
