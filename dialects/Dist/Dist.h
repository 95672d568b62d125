#pragma once
#include "dialects/Dist/Sharding.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/Dist/DistDialect.h.inc"
#include "dialects/Dist/DistEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Dist/DistAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialects/Dist/DistOps.h.inc"

namespace divisi::dist {

namespace names {
inline constexpr llvm::StringLiteral mesh = "dist.mesh"; // function: planned on this mesh, types are global
inline constexpr llvm::StringLiteral partitioned = "dist.partitioned"; // function: the mesh, types are local
inline constexpr llvm::StringLiteral global = "dist.global"; // argument or result: its type before partitioning
inline constexpr llvm::StringLiteral stage = "dist.stage";   // operation, argument or task: its stage in a pipeline
inline constexpr llvm::StringLiteral stageAxes =
    "dist.stage_axes"; // function: the axes of each stage, if these differ (StageAxes)
inline constexpr llvm::StringLiteral held =
    "dist.held"; // argument or result of a task: {name, kind} of a value that tasks of a stage pass on
inline constexpr llvm::StringLiteral when =
    "dist.when"; // result of a task that is held: the steps in which it is computed on demand (graph::When)
inline constexpr llvm::StringLiteral use =
    "use"; // dist.reshard, dist.all_gather: a number that makes equal ones distinct
} // namespace names

/// How long a value that tasks of a stage pass on is kept (`kind` in `dist.held`).
namespace held {
inline constexpr llvm::StringLiteral step =
    "step"; // until the end of the step: a value that is computed once before the microbatches
inline constexpr llvm::StringLiteral microbatch = "microbatch"; // from a microbatch's forward to its backward task
inline constexpr llvm::StringLiteral sum = "sum"; // over the microbatches: each adds to what the previous one left
} // namespace held

/// The axis of a mesh along which ranks have different stages.
inline constexpr llvm::StringLiteral stageAxis = "stage";

/// The mesh of the nearest enclosing planned function; null if there is none.
MeshAttr meshOf(mlir::Operation *op);
Mesh toMesh(MeshAttr attr);
MeshAttr toAttr(const Mesh &mesh, mlir::MLIRContext *context);

/// The encoding; null if the type is replicated or no tensor.
inline ShardAttr shardOf(mlir::Type type) {
  auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(type);
  return tensor ? llvm::dyn_cast_or_null<ShardAttr>(tensor.getEncoding()) : ShardAttr();
}
/// The sharding of a type; the mesh must have all its axes.
Sharding toSharding(mlir::RankedTensorType type, const Mesh &mesh);
/// The type with another sharding (without an encoding if it is replicated).
mlir::RankedTensorType withSharding(mlir::RankedTensorType type, const Sharding &sharding, const Mesh &mesh);
/// Axis names as an attribute.
mlir::ArrayAttr axisNames(AxesRef axes, const Mesh &mesh, mlir::MLIRContext *context);
/// `"data" + "model"`, or `_` if there are none.
std::string toText(AxesRef axes, const Mesh &mesh);
/// The type of one device's shard, or an error: unknown or repeated axes, wrong rank, a size that does not divide.
mlir::FailureOr<mlir::RankedTensorType> localType(mlir::RankedTensorType type, const Mesh &mesh,
                                                  llvm::function_ref<mlir::InFlightDiagnostic()> error);

} // namespace divisi::dist
