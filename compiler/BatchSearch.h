#pragma once
#include "compiler/Report/BatchAdvice.h"
#include "compiler/Report/PlanReport.h"
#include "compiler/Attempt.h"

#include <map>

namespace divisi::compiler {

/// Searches plans for other sizes of the batch; each size once.
class BatchSearch {
public:
  BatchSearch(const ModelRequest &model, const int64_t &microbatches) : model(model), microbatches(microbatches) {}

  /// The dimension of the batch and its size; null if the model has no such dimension that a flag sets.
  const std::pair<const std::string, int64_t> *dimension() const;
  /// The next smaller and the next larger batch, by factors of two, for which the search chooses another plan.
  std::vector<PlanReport::Flip> others(const planning::ModuleCandidate &best, const planning::Cluster &cluster,
                                                 const planning::PlannerOptions &options);
  /// Compares a quarter, a half, twice and four times the batch by the noise of the gradients in the log of that name.
  llvm::Expected<BatchAdvice> advise(const std::string &log, const MeasuredNoise &noise, const Attempt &present,
                                               const planning::Cluster &cluster, const planning::PlannerOptions &options);

private:
  /// What a search finds.
  struct Found {
    std::string name, mesh;
    std::vector<std::string> forms;
    bool fits;
    double seconds;
  };
  /// Null if it fails.
  const Found *plan(int64_t size, const planning::Cluster &cluster, const planning::PlannerOptions &options);

  const ModelRequest &model;
  const int64_t &microbatches;
  std::map<int64_t, std::optional<Found>> searched; // by size
};

} // namespace divisi::compiler
