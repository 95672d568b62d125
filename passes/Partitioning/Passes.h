#pragma once
#include "dialects/Dist/Dist.h"
#include "dialects/Graph/Graph.h"
#include "step/Buckets.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace divisi::partitioning {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Partitioning/Passes.h.inc"
} // namespace divisi::partitioning
