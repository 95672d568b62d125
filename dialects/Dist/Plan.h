#pragma once
#include "dialects/Dist/Dist.h"

#include "mlir/IR/SymbolTable.h"

#define GET_OP_CLASSES
#include "dialects/Dist/DistPlan.h.inc"

namespace divisi::dist::names {
/// On a plan for the devices of a stage: the pipeline, {stages, chunks, microbatches, schedule, cuts}.
inline constexpr llvm::StringLiteral pipeline = "pipeline";
} // namespace divisi::dist::names
