#pragma once
#include "compiler/Pipeline.h"
#include "passes/Pipelining/StageCosts.h"
#include "passes/Planning/ModulePlanner.h"
#include "passes/Planning/Simulator/Simulator.h"

#include "mlir/IR/OwningOpRef.h"

namespace divisi::compiler {

/// A pipeline with a plan for the devices of its stages.
struct PipelineCandidate {
  MicrobatchOptions options;          // with the cuts by name
  planning::ModuleCandidate plan;     // of one stage's devices
  planning::pipeline::Simulation run; // of a step on the cluster
  double seconds = 0, memory = 0;     // of a step; bytes of the device that needs most
  bool fits = false;
  std::shared_ptr<mlir::OwningOpRef<mlir::ModuleOp>> module; // in microbatches: what the plan is for
  std::string hash;                                          // of that module, for a plan file

  /// "stage=2,data=2 1f1b microbatches=8".
  std::string name() const;
};

/// A step in a number of microbatches, as pipelines are planned for it.
struct StepInParts {
  std::shared_ptr<mlir::OwningOpRef<mlir::ModuleOp>> module;
  planning::ModuleProblem problem;
  std::shared_ptr<const planning::Planner> planner; // of that problem
  std::shared_ptr<const pipelining::StepParts> parts;
  std::string hash; // as a plan file meets the module again

  /// Of a module at the level train whose operations are simple; with a diagnostic, fails if it cannot be computed in
  /// so many parts.
  static mlir::FailureOr<StepInParts> make(mlir::ModuleOp module, const MicrobatchOptions &options,
                                           const planning::Cluster &cluster);
  /// Finds everything else from a module that has changed. Fails with a diagnostic.
  mlir::LogicalResult analyse(const planning::Cluster &cluster);
  mlir::func::FuncOp train() const;
  /// A plan of one stage's devices for this step, and what stages cost under it.
  struct Priced {
    planning::ModuleCandidate plan;
    std::unique_ptr<pipelining::StageCosts> costs;
  };
  std::unique_ptr<Priced> price(const planning::Cluster &cluster, const dist::Mesh &mesh, const planning::Plan &plan,
                                const std::string &name) const;
  /// Cuts the step at the cuts of the options if there are any, and simulates it. Fails with a diagnostic,
  /// where stages, microbatches and schedule do not go together.
  mlir::FailureOr<PipelineCandidate> simulate(const Priced &priced, const MicrobatchOptions &options,
                                              const planning::Cluster &cluster) const;
  /// The same for stages that lack axes of the plan's mesh: `options.axes`. Without cuts they are where the slowest
  /// stage is fastest if its devices share the work evenly, by the times of one device (`alone`).
  mlir::FailureOr<PipelineCandidate> simulateNarrow(const dist::Mesh &mesh, const planning::Plan &plan,
                                                    const std::string &name, const Priced &alone,
                                                    const MicrobatchOptions &options,
                                                    const planning::Cluster &cluster) const;
  /// What one device takes.
  std::unique_ptr<Priced> priceAlone(const planning::Cluster &cluster) const;

private:
  mlir::FailureOr<PipelineCandidate> simulate(const Priced &priced, const MicrobatchOptions &options,
                                              const planning::Cluster &cluster,
                                              const pipelining::StagePlacement &placement) const;
};

} // namespace divisi::compiler
