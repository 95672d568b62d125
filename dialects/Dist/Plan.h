#pragma once
#include "dialects/Dist/Dist.h"

#include "mlir/IR/SymbolTable.h"

#define GET_OP_CLASSES
#include "dialects/Dist/DistPlan.h.inc"

namespace divisi::dist {
/// The version of the text of plans that this compiler reads and writes.
inline constexpr int64_t planFormat = 3;
/// Parses `format N` of a plan's text. Another version is refused immediately, because the rest of the text may be
/// anything.
mlir::ParseResult parsePlanFormat(mlir::OpAsmParser &parser, mlir::IntegerAttr &format);
void printPlanFormat(mlir::OpAsmPrinter &printer, PlanOp, mlir::IntegerAttr format);
/// Parses `[data+model, _]`: the axes of each dimension. An axis whose name is no identifier is quoted.
mlir::ParseResult parsePlacement(mlir::OpAsmParser &parser, mlir::ArrayAttr &dims);
void printPlacement(mlir::OpAsmPrinter &printer, PlaceOp, mlir::ArrayAttr dims);
} // namespace divisi::dist

namespace divisi::dist::names {
/// Attribute of a plan for the devices of a stage: the pipeline, {stages, chunks, microbatches, schedule, cuts}.
inline constexpr llvm::StringLiteral pipeline = "pipeline";
/// All attributes of a plan file.
inline constexpr llvm::StringLiteral ofPlans[] = {pipeline, "sync", "split_projections", "calibration"};
} // namespace divisi::dist::names
