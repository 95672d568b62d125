#pragma once
#include "compiler/Attempt.h"
#include "compiler/BatchSearch.h"
#include "compiler/Report/SyncReport.h"

namespace divisi::compiler {

/// What `divisi plan` and `divisi explain` are asked for. Nothing in it is changed by a search.
struct PlanRequest {
  ModelRequest model;
  planning::Cluster cluster;
  planning::PlannerOptions options;
  int64_t devices = 1, microbatches = 0; // microbatches, 0: as many as the memory needs
  std::string file;                      // a plan to price, instead of a search
  bool givenMesh = false;                // the options' mesh is not to be chosen
  bool pipelines = false, asynchronous = false;
  std::string schedule; // of pipelines; empty: any
  bool explains = false;
  bool pricesSync = false;            // also the ways to keep replicas in step
  std::string log;                    // of a program that measured the noise of its gradients; empty: none
  std::optional<MeasuredNoise> noise; // that log's
};

/// Plans for a model on a cluster, best first, and what would change them.
class PlanSearch {
public:
  explicit PlanSearch(const PlanRequest &request) : request(request), first(request.model) {}

  /// Fails without a text if a diagnostic was printed. Prints notes to stderr.
  llvm::Error run();
  /// Whether a search for pipelines, which is not asked for, may find faster ones.
  bool mayPipelinesWin() const;

private:
  const PlanRequest &request;

public:
  Attempt first; // has the plans and pipelines
  std::vector<std::string> suggestions; // with which plans fit
  std::vector<std::string> hints;       // what would be faster
  std::vector<PlanReport::Flip> flips;  // where another plan is the best
  std::vector<SyncPrice> sync;
  std::string syncPlan; // the mesh of these prices
  std::optional<BatchAdvice> advice;

private:
  llvm::Error price();
  llvm::Error rank();
  llvm::Error priceSync();
  void suggestPipeline();
  void suggestDevices();
  void suggestBatch();
  void suggestPrecision();
  void hintAtPrecision();
  std::vector<planning::ModuleCandidate> plansInHalf(Attempt &attempt) const;
  planning::PlannerOptions quickly() const;
  /// Whether a search may choose pipelines instead of the plans.
  bool isFree() const {
    return request.devices > 1 && !request.givenMesh && request.options.pins.empty() && !first.hasBatchNorm;
  }
  std::optional<bool> rematOfPipelines() const {
    return request.options.remat ? std::optional(*request.options.remat > 0) : std::nullopt;
  }

  BatchSearch batches{request.model, request.microbatches};
};

} // namespace divisi::compiler
