#pragma once
#include "compiler/PipelineCandidate.h"

namespace divisi::compiler {

/// Improves one pipeline step by step.
class PipelineRefinement {
public:
  /// `alone`: the costs of one device, for stages that differ. All references must outlive the refinement.
  PipelineRefinement(const StepInParts &step, const StepInParts::Priced *alone, const planning::Cluster &cluster,
                     PipelineCandidate &candidate);

  /// Moves cuts, one after the other, while this helps: the cuts for which the slowest stage is fastest need not give
  /// the fastest step.
  void moveCuts();
  /// If all segments of the stages are recomputed: reduces their number to about the least that fits into memory.
  void keepMore();

private:
  bool take(const MicrobatchOptions &options);

  const StepInParts &step;
  const StepInParts::Priced *alone;
  const planning::Cluster &cluster;
  PipelineCandidate &candidate;
  std::unique_ptr<StepInParts::Priced> priced;
};

} // namespace divisi::compiler
