#pragma once
#include "compiler/Pipeline.h"
#include "passes/Pipelining/StageCosts.h"
#include "passes/Planning/ModulePlanner.h"
#include "passes/Planning/Simulator/Simulator.h"

#include "mlir/IR/OwningOpRef.h"

namespace divisi::compiler {

/// A pipeline, with a plan for the devices of its stages.
struct PipelineCandidate {
  MicrobatchOptions options;          // with the names of the cuts
  planning::ModuleCandidate plan;     // for the devices of one stage
  planning::pipeline::Simulation run; // of a step on the cluster
  double seconds = 0, memory = 0;     // of a step; bytes of the device that needs most
  bool fits = false;
  std::shared_ptr<mlir::OwningOpRef<mlir::ModuleOp>> module; // with microbatches: the module of the plan
  std::string hash;                                          // the hash of that module, for a plan file

  /// What fits is better than what does not, then what is faster or, where nothing fits, needs less memory.
  bool isBetterThan(const PipelineCandidate &other) const {
    return fits != other.fits ? fits : fits ? seconds < other.seconds : memory < other.memory;
  }
  /// The number of steps that `run` has: a simulation of an asynchronous pipeline has several.
  double simulatedSteps() const {
    return options.asynchronous() ? (double)run.options.microbatches / (double)run.options.batch : 1;
  }
  /// "stage=2,data=2 1f1b microbatches=8".
  std::string name() const;
};

/// Applies a plan for the devices of a stage to a module in the microbatches of `options`, which have the names of the cuts,
/// and writes it at the head of the module.
mlir::LogicalResult applyStages(mlir::ModuleOp module, const planning::ModuleCandidate &plan, const MicrobatchOptions &options,
                                const planning::PlanSubject &subject);

/// A step split into microbatches, for which pipelines are planned.
struct StepInParts {
  std::shared_ptr<mlir::OwningOpRef<mlir::ModuleOp>> module;
  planning::ModuleProblem problem;
  std::shared_ptr<const planning::Planner> planner; // of that problem
  std::shared_ptr<const pipelining::StepParts> parts;
  std::string hash; // the module's hash when a plan file is read

  /// Splits a module at the level train, with simple operations, into microbatches. Fails with a diagnostic if it
  /// cannot be split into this number.
  static mlir::FailureOr<StepInParts> make(mlir::ModuleOp module, const MicrobatchOptions &options,
                                           const planning::Cluster &cluster);
  /// Recomputes the other members after the module has changed. Fails with a diagnostic.
  mlir::LogicalResult analyse(const planning::Cluster &cluster);
  mlir::func::FuncOp train() const;
  /// A plan for the devices of one stage of this step, and the costs of stages under it.
  struct Priced {
    planning::ModuleCandidate plan;
    std::unique_ptr<pipelining::StageCosts> costs;
  };
  std::unique_ptr<Priced> price(const planning::Cluster &cluster, const dist::Mesh &mesh, const planning::Plan &plan,
                                const std::string &name) const;
  /// Cuts the step, at the cuts of the options if there are any, and simulates it. Fails with a diagnostic if the
  /// stages, microbatches and schedule do not fit together.
  mlir::FailureOr<PipelineCandidate> simulate(const Priced &priced, const MicrobatchOptions &options,
                                              const planning::Cluster &cluster) const;
  /// The same for stages that lack axes of the plan's mesh: `options.axes`. Without cuts, the step is cut so that the
  /// slowest stage is as fast as possible, if its devices share the work evenly, by the times of one device (`alone`).
  mlir::FailureOr<PipelineCandidate> simulateNarrow(const dist::Mesh &mesh, const planning::Plan &plan,
                                                    const std::string &name, const Priced &alone,
                                                    const MicrobatchOptions &options,
                                                    const planning::Cluster &cluster) const;
  /// The costs of the step on one device.
  std::unique_ptr<Priced> priceAlone(const planning::Cluster &cluster) const;

private:
  mlir::FailureOr<PipelineCandidate> simulate(const Priced &priced, const MicrobatchOptions &options,
                                              const planning::Cluster &cluster,
                                              const pipelining::StagePlacement &placement) const;
};

} // namespace divisi::compiler
