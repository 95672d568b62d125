#pragma once
#include "dialects/Exec/Exec.h"
#include "dialects/Graph/Graph.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/Pass.h"

namespace divisi::codegen {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "codegen/Kernels/Passes.h.inc"
} // namespace divisi::codegen
