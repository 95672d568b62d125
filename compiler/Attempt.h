#pragma once
#include "compiler/PipelineCandidate.h"
#include "compiler/Profile/Expectation.h"
#include "compiler/RankPipelines.h"
#include "compiler/Report/Throughput.h"
#include "compiler/Session.h"
#include "passes/Planning/ModulePlanner.h"

#include <optional>

namespace divisi::compiler {

/// A model that is read and planned once. Errors have no text if a diagnostic was emitted.
class Attempt {
public:
  /// `warns`: what the import warns of and notes is printed; once is enough for attempts at one model.
  explicit Attempt(const ModelRequest &request, bool warns = true) : request(request), session("", warns) {}

  /// Plans the model, in this number of microbatches (0: as many as the memory needs). A dump of level exec has its plan:
  /// its calls are priced (`program`).
  llvm::Error plan(const planning::Cluster &cluster, const planning::PlannerOptions &options, int64_t microbatches = 0);
  /// Predicts the cost of the plan in a file.
  llvm::Error price(const planning::Cluster &cluster, const std::string &path);
  /// Predicts the cost of the strategies' plan on a mesh, that of a stage if there are several, with a level of ZeRO.
  /// No microbatches: a usual number for the stages.
  llvm::Error price(const planning::Cluster &cluster, const dist::Mesh &mesh, int zero,
                    MicrobatchOptions options);

  bool asynchronous = false; // `marked` is wanted
  bool hasBatchNorm = false;
  bool hasOtherSync = false; // the plan of the file keeps replicas in step otherwise than by all_reduces
  ModelRequest request;
  Session session;
  StepWork work; // of the model in training
  mlir::OwningOpRef<mlir::ModuleOp> marked; // the step with marked gradients, for asynchronous pipelines
  std::vector<planning::ModuleCandidate> candidates;
  std::string unmeasured; // why no measured times order them, if there are any
  std::optional<Expectation> program;
  std::vector<PipelineCandidate> pipelines; // their modules live in the session's context

private:
  llvm::Error priceProgram(const planning::Cluster &cluster);
  /// The model as it is when a plan file is read, split into microbatches if the plan has several.
  struct Met {
    std::string hash;
    std::optional<StepInParts> step;
  };
  llvm::Expected<Met> meet(const TrainOptions &train, const MicrobatchOptions &options,
                           const planning::Cluster &cluster);
  llvm::Error priceInParts(const planning::Cluster &cluster, const dist::Mesh &mesh, int zero,
                           MicrobatchOptions options);
  llvm::Error toTrain(TrainOptions train);
};

} // namespace divisi::compiler
