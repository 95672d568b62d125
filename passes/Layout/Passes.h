#pragma once
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace divisi::layout {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Layout/Passes.h.inc"
} // namespace divisi::layout
