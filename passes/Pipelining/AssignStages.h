#pragma once
#include "dialects/Dist/StageAxes.h"
#include "passes/Pipelining/StepParts.h"

#include "llvm/ADT/StringMap.h"

#include <functional>

namespace divisi::pipelining {

/// What nodes are weighed by: the seconds of an operation for one microbatch, and those of a value's way to another
/// stage.
struct StageWeights {
  std::function<double(mlir::Operation *)> seconds;
  std::function<double(mlir::Value)> message;
  std::vector<double> devices = {}; // of each stage, which share its seconds; empty: as many for each

  /// Of a nominal device, so that the same model is cut alike on every machine.
  static StageWeights nominal();
  /// The same for stages that have not all axes of a mesh.
  StageWeights sharedBy(const dist::StageAxes &axes, const dist::Mesh &mesh, int64_t stages) const;
};

/// Where the operations and states of a function are.
struct StagePlacement {
  llvm::DenseMap<mlir::Operation *, int> operations;
  llvm::StringMap<int> states;                  // by name
  llvm::DenseMap<mlir::StringAttr, int> layers; // of the forward part, by the names of nodes
  std::vector<std::string> cuts;                // the first nodes of stages 1, 2, ...

  int of(mlir::Operation *op) const { return operations.lookup(op); }
  int of(mlir::BlockArgument argument) const { return states.lookup(nameOfArgument(argument)); }
};

/// The names of the nodes between which @train can be cut, in their order.
std::vector<std::string> nodesOf(mlir::func::FuncOp train, const StepParts &parts);

/// Places @train of a module with microbatches: the forward part's nodes are cut before those in `cuts` or, if there
/// are none, where the slowest stage is fastest. Changes nothing in the module.
mlir::FailureOr<StagePlacement> placeStages(mlir::func::FuncOp train, const StepParts &parts, int64_t stages,
                                            const std::vector<std::string> &cuts, const StageWeights &weights);

/// Writes such a placement of @train, and one of the other functions that follows from it, as `dist.stage` on
/// operations and arguments. Operations that have one keep it.
mlir::LogicalResult assignStages(mlir::ModuleOp module, int64_t stages, const std::vector<std::string> &cuts,
                                 const StageWeights &weights);
/// The same before the plan of stages that lack axes of the mesh, which it also writes, for the plan to know.
mlir::LogicalResult assignNarrowStages(mlir::ModuleOp module, int64_t stages, const std::vector<std::string> &cuts,
                                       const StageWeights &weights, const dist::StageAxes &axes);

} // namespace divisi::pipelining
