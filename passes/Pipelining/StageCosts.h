#pragma once
#include "passes/Pipelining/AssignStages.h"
#include "passes/Planning/ModulePlanner.h"
#include "passes/Planning/ModuleProblem.h"
#include "passes/Planning/Simulator/Simulator.h"

namespace divisi::pipelining {

/// The costs of a module with microbatches under a plan for the devices of one stage, as the planner predicts them.
class StageCosts {
public:
  /// `parts` are those of @train, `problem` is the module's. `plan` is predicted for a step of one microbatch, and
  /// `expansion` is the plan's. `axes`: the axes of the plan's mesh that each stage has; empty: every stage has all.
  StageCosts(mlir::func::FuncOp train, const StepParts &parts, const planning::ModuleProblem &problem,
             const planning::Candidate &plan, const planning::FusedProblem &fused, planning::Expansion expansion,
             const planning::Cluster &cluster, dist::StageAxes axes = {});

  /// Weights for cutting the model so that the slowest stage is as fast as possible.
  StageWeights weights() const;
  /// Costs of the stages, and the messages between them. Memory is that of state, gradients, values that a microbatch
  /// keeps for its backward pass, and what one task needs while it runs. The best `remat` segments of
  /// planning::rematEffects are recomputed. In an asynchronous schedule gradients of shared parameters are sent with each minibatch.
  struct Stages {
    std::vector<planning::pipeline::StageCost> costs;
    std::vector<planning::pipeline::Edge> edges;
  };
  Stages of(const StagePlacement &placement, int64_t stages, int64_t remat, bool isAsynchronous) const;
  /// The time of messages between the devices of two stages, by the bytes of each pair of them. Stages follow each
  /// other on the devices of the cluster.
  planning::pipeline::Network network() const;

private:
  /// Adds the time of the best `count` segments that are recomputed, calls `keep` for the values that they are
  /// recomputed from, and adds the values that are not kept to `dropped`.
  void computeAgain(int64_t count, llvm::function_ref<int(mlir::Operation *)> stageOf,
                    std::vector<planning::pipeline::StageCost> &costs, llvm::DenseSet<mlir::Value> &dropped,
                    llvm::function_ref<void(int, mlir::Value)> keep) const;
  /// Positions of the first and last operation that reads a value on the stage and in the part of the step that are
  /// given; none: there is no such operation.
  std::optional<std::pair<int, int>> readers(mlir::Value value, Part part,
                                             llvm::function_ref<int(mlir::Operation *)> stageOf) const;
  /// Bytes that the tasks of each stage need while they run, beside what they keep and pass on.
  std::vector<double> transientBytes(llvm::function_ref<int(mlir::Operation *)> stageOf, int64_t stages) const;
  double bytesOf(mlir::Value value) const;
  /// Pairs of devices of two stages that exchange a value and its gradient: as many as the stage with more has.
  int64_t pairsBetween(int from, int to) const;
  /// Bytes that each of these pairs exchanges of a value, as the other stage needs it.
  double bytesBetween(int from, int to, mlir::Value value, llvm::function_ref<int(mlir::Operation *)> stageOf) const;
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
  llvm::DenseMap<mlir::Operation *, int> position; // in program order
  std::vector<double> computing, communicating;    // seconds, by operation of the problem
};

} // namespace divisi::pipelining
