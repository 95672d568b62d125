#pragma once
#include "codegen/Lowering/ScalarBuilder.h"
#include "dialects/Dist/Dist.h"
#include "dialects/Graph/Graph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace divisi::codegen {

/// The DivisiType of elements in parameter blocks (a boolean is one byte); null if there is none.
std::optional<int64_t> typeCode(mlir::Type element);

// One function for each family of graph operations: attaches their lowerings.
void attachCommunication(mlir::MLIRContext *context);
void attachElementwise(mlir::MLIRContext *context);
void attachIndexing(mlir::MLIRContext *context);
void attachLibrary(mlir::MLIRContext *context);
void attachPooling(mlir::MLIRContext *context);
void attachRandom(mlir::MLIRContext *context);
void attachReduction(mlir::MLIRContext *context);
void attachShape(mlir::MLIRContext *context);

} // namespace divisi::codegen
