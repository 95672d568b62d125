#pragma once
#include "mlir/Pass/Pass.h"

namespace divisi::identity {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Identity/Passes.h.inc"
} // namespace divisi::identity
