#pragma once
#include "passes/Pipelining/AssignStages.h"
#include "passes/Planning/ModulePlanner.h"
#include "passes/Planning/ModuleProblem.h"
#include "passes/Planning/Simulator/Simulator.h"

namespace divisi::pipelining {

/// What a module with microbatches takes under a plan for the devices of one stage, as the planner predicts it.
class StageCosts {
public:
  /// `parts` are those of @train. `problem` is that of the module; the prediction of `plan` is for a step of one
  /// microbatch, and `expansion` is the plan's. `axes`: of the plan's mesh that stages have, if these differ.
  StageCosts(mlir::func::FuncOp train, const StepParts &parts, const planning::ModuleProblem &problem,
             const planning::Candidate &plan, const planning::FusedProblem &fused, planning::Expansion expansion,
             const planning::Cluster &cluster, dist::StageAxes axes = {});

  /// For cutting the model where the slowest stage is fastest.
  StageWeights weights() const;
  /// Costs of stages, and messages between them. Memory of gradients, state, what a microbatch
  /// leaves for its backward pass, and what one task needs while it runs; workspaces of libraries are not counted. So
  /// many parts are computed again, the best of planning::rematSegments.
  struct Stages {
    std::vector<planning::pipeline::StageCost> costs;
    std::vector<planning::pipeline::Edge> edges;
  };
  Stages of(const StagePlacement &placement, int64_t stages, int64_t remat) const;
  /// Messages between the devices of stages, which follow each other on the cluster.
  planning::pipeline::Network network() const;

private:
  /// Adds what parts of the forward part that are computed again take, and say what is kept for them.
  void computeAgain(int64_t count, llvm::function_ref<int(mlir::Operation *)> stageOf,
                    std::vector<planning::pipeline::StageCost> &costs, llvm::DenseSet<mlir::Value> &dropped,
                    llvm::function_ref<void(int, mlir::Value)> keep) const;
  /// The first and last operation of a part that reads a value where it is made; nothing: none.
  std::optional<std::pair<int, int>> readers(mlir::Value value, Part part,
                                             llvm::function_ref<int(mlir::Operation *)> stageOf) const;
  /// Bytes that tasks of each stage need while they run, apart from what they keep and pass on.
  std::vector<double> transientBytes(llvm::function_ref<int(mlir::Operation *)> stageOf, int64_t stages) const;
  double bytesOf(mlir::Value value) const;
  /// Of the pieces that another stage gets: whole along axes that it lacks.
  double bytesFor(int stage, mlir::Value value) const;
  double seconds(mlir::Operation *op) const;
  double messageSeconds(double bytes) const;

  mutable mlir::func::FuncOp train;
  const StepParts &parts;
  const planning::ModuleProblem &problem;
  const planning::Candidate &plan;
  const planning::Cluster &cluster;
  planning::Expansion expansion;
  dist::StageAxes axes;
  const planning::FusedProblem &fused;             // which values are stored
  llvm::DenseMap<mlir::Operation *, int> position; // in the program
  std::vector<double> computing, communicating;    // by operation of the problem, seconds
};

} // namespace divisi::pipelining
