#pragma once
#include "dialects/Dist/StageAxes.h"
#include "passes/Pipelining/StepParts.h"

#include "llvm/ADT/StringMap.h"

#include <functional>

namespace divisi::pipelining {

/// The weights by which nodes are cut into stages: the seconds of an operation for one microbatch, and the seconds in
/// which a value is sent to another stage.
struct StageWeights {
  std::function<double(mlir::Operation *)> seconds;
  std::function<double(mlir::Value)> message;
  std::vector<double> devices = {}; // of each stage, which divide its seconds; empty: all stages have equally many

  /// Weights of a nominal device: the same model is cut alike on every machine.
  static StageWeights nominal();
  /// The same weights for stages that do not all have every axis of the mesh.
  StageWeights sharedBy(const dist::StageAxes &axes, const dist::Mesh &mesh, int64_t stages) const;
};

/// The stages of a function's operations and of its state.
struct StagePlacement {
  llvm::DenseMap<mlir::Operation *, int> operations;
  llvm::StringMap<int> states;                  // by name
  llvm::DenseMap<mlir::StringAttr, int> layers; // of the forward pass, by the names of nodes
  std::vector<std::string> cuts;                // where stages 1, 2, ... begin, as placeStages takes it

  int of(mlir::Operation *op) const { return operations.lookup(op); }
  int of(mlir::BlockArgument argument) const { return states.lookup(nameOfArgument(argument)); }
};

/// The names of the nodes of @train, in the order in which they can be cut.
std::vector<std::string> nodesOf(mlir::func::FuncOp train, const StepParts &parts);

/// Assigns stages to @train of a module with microbatches. The nodes of the forward pass are cut before those in
/// `cuts`; if there are none, so that the slowest stage is as fast as possible. A cut is a node, with which a stage begins
/// in the order of the model, or several ("a + b"), which begin it together with all that depends on them: branches may
/// then be cut at different depths. Does not change the module.
mlir::FailureOr<StagePlacement> placeStages(mlir::func::FuncOp train, const StepParts &parts, int64_t stages,
                                            const std::vector<std::string> &cuts, const StageWeights &weights);

/// Assigns stages as placeStages does and writes them as `dist.stage` on operations and arguments of @train; the other
/// functions follow. Operations that have a stage keep it.
mlir::LogicalResult assignStages(mlir::ModuleOp module, int64_t stages, const std::vector<std::string> &cuts,
                                 const StageWeights &weights);
/// The same before the plan of a pipeline whose stages lack axes of the mesh: also writes these axes, which the planner
/// reads.
mlir::LogicalResult assignNarrowStages(mlir::ModuleOp module, int64_t stages, const std::vector<std::string> &cuts,
                                       const StageWeights &weights, const dist::StageAxes &axes);

} // namespace divisi::pipelining
