#pragma once
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace divisi::training {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Training/Passes.h.inc"
} // namespace divisi::training
