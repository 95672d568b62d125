#pragma once
#include "compiler/CompileRequest.h"
#include "compiler/Executable.h"
#include "compiler/Profile/Expectation.h"

namespace divisi::compiler {

/// A module on its way from a model to a program. Errors and notes are diagnostics of the session.
class Compilation {
public:
  Compilation(const CompileRequest &request, Executable &executable)
      : request(request), plan(request.devices.plan), microbatches(request.devices.microbatches), sync(request.sync),
        executable(executable), session(executable.about(), executable.isFirst()) {}

  /// Brings the module to the level that is asked for.
  mlir::LogicalResult run();

  mlir::ModuleOp module() const { return *model.module; }
  /// Whether the program needs the library for communication.
  bool hasManyRanks() const { return manyRanks; }

private:
  mlir::LogicalResult fail(const llvm::Twine &message);
  /// The same; an error without a text was told by a diagnostic.
  mlir::LogicalResult fail(llvm::Error error);
  void note(const llvm::Twine &message);

  // Compilation.cpp
  mlir::LogicalResult read();
  mlir::LogicalResult applyMesh();
  mlir::LogicalResult toTrain();
  mlir::LogicalResult toPlanned();
  mlir::LogicalResult toExec();
  mlir::LogicalResult lower();
  mlir::FailureOr<Expectation> expect();
  /// The subject of the program's plan: a training step with this hash.
  planning::PlanSubject subjectOf(const std::string &hash) const { return {hash, plan.target}; }
  void noteUnmeasured(llvm::StringRef what, llvm::StringRef why);

  // ChoosePlan.cpp
  mlir::LogicalResult searchPlan();
  mlir::LogicalResult searchPipelines(const planning::Cluster &cluster);
  mlir::FailureOr<planning::Cluster> clusterOfSearch();
  std::vector<PipelineCandidate> rankWhole(const planning::Cluster &cluster);
  mlir::LogicalResult applyPipeline(PipelineCandidate best);
  mlir::LogicalResult chooseOfBatchNorm();
  mlir::LogicalResult chooseMicrobatches();
  mlir::LogicalResult chooseCuts();
  void noteSearch(const planning::Cluster &cluster);

  const CompileRequest &request;
  PlanOptions plan;
  MicrobatchOptions microbatches; // as requested, or found by a search
  dist::Sync sync;                // as requested, or the plan file's
  Executable &executable;
  Session session;
  ImportedModel &model = session.model;
  Level level = Level::graph; // of the module
  TrainOptions train;
  std::string meshOfStage; // as requested, or the plan file's
  mlir::OwningOpRef<mlir::ModuleOp> beforeTrain; // for pipelines: the model, and how its training step was made of it
  TrainOptions trained;
  PipelineRequest pipelines = request.devices.request;
  std::optional<planning::Cluster> searched; // for what a search has chosen the plan
  bool isSplit = false; // into microbatches, in a dump
  bool manyRanks = false, hasBatchNorm = false, toldOfProfile = false;
};

} // namespace divisi::compiler
